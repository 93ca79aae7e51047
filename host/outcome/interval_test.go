package outcome_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

func TestOnlyTheIntervalHasJitter(t *testing.T) {
	after := func(interval, requeueAfter int64, jitter float64) outcome.Next {
		in := given()
		in.Controller = &abi.Controller{Interval: interval}
		in.Result.RequeueAfter, in.Jitter = requeueAfter, jitter
		return outcome.Decide(in).Next
	}
	for _, c := range []struct {
		interval, requeueAfter int64
		jitter                 float64
		want                   time.Duration
	}{
		{60_000, 0, 0, time.Minute},
		{60_000, 0, 0.5, time.Minute + 1500*time.Millisecond},
		{60_000, 60_000, 0.999, time.Minute},
		{0, 60_000, 0.999, time.Minute},
		{0, 0, 0.999, 0},
		{math.MaxInt64, 0, 0.999, math.MaxInt64},
	} {
		if got := after(c.interval, c.requeueAfter, c.jitter); got.After != c.want {
			t.Errorf("interval %d, requeueAfter %d, jitter %v: after %v, want %v", c.interval, c.requeueAfter, c.jitter, got.After, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		interval := rapid.Int64Range(100, 100*365*24*3_600_000).Draw(t, "interval")
		d := time.Duration(interval) * time.Millisecond
		got := after(interval, 0, rapid.Float64Range(0, 0.999).Draw(t, "jitter")).After
		if got < d || float64(got) > 1.05*float64(d)+1 {
			t.Fatalf("%v for an interval of %v", got, d)
		}
	})
}
