package page

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestRatesAreOfTheLastMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rates
		begun := time.Now()
		numbers := func() (map[string]Numbers, error) {
			runs := 10 * time.Since(begun).Seconds() // in each second
			if time.Since(begun) > time.Minute {
				runs = 600 + 2*(time.Since(begun)-time.Minute).Seconds()
			}
			return map[string]Numbers{"a/c": {Runs: runs, Errors: runs / 2}}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.run(ctx, numbers)
		at := func(after time.Duration) map[string]Rate {
			time.Sleep(after) // fake time
			synctest.Wait()
			n, _ := numbers()
			return r.until(sample{time.Now(), n})
		}
		if got := at(0); len(got) != 0 {
			t.Errorf("at once: %v", got)
		}
		if got := at(5 * time.Second)["a/c"]; got != (Rate{10, 5}) {
			t.Errorf("after 5 s: %v", got)
		}
		if got := at(55 * time.Second)["a/c"]; got != (Rate{10, 5}) {
			t.Errorf("after a minute: %v", got)
		}
		if got := at(2 * time.Minute)["a/c"]; got != (Rate{2, 1}) {
			t.Errorf("after another two: %v", got)
		}
		if len(r.samples) != maxSamples {
			t.Errorf("%d samples are kept", len(r.samples))
		}
	})
}

func TestRateOfAControllerThatWasStartedAgain(t *testing.T) {
	var r rates
	now := time.Now()
	r.add(sample{now, map[string]Numbers{"a/c": {Runs: 1000, Errors: 900}}})
	got := r.until(sample{now.Add(10 * time.Second), map[string]Numbers{"a/c": {Runs: 20, Errors: 10}, "b/c": {Runs: 40}}})
	if got["a/c"] != (Rate{2, 1}) || got["b/c"] != (Rate{Runs: 4}) {
		t.Errorf("%v", got)
	}
}
