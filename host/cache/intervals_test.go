package cache

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/await"
)

func TestTheShortestIntervalOfTheUsersCounts(t *testing.T) {
	s := newIntervals()
	expect := func(want time.Duration) {
		t.Helper()
		if got := s.interval(); got != want {
			t.Errorf("the interval is %s, want %s", got, want)
		}
	}
	a, b := &Informer{}, &Informer{}
	expect(DefaultPollInterval)
	s.set(a, time.Hour)
	expect(time.Hour)
	s.set(b, time.Minute)
	expect(time.Minute)
	s.set(b, 2*time.Hour)
	expect(time.Hour)
	s.set(a, 0)
	expect(2 * time.Hour)
	s.set(b, 0)
	expect(DefaultPollInterval)
}

// waits returns how long await waits while do runs.
func waits(t *testing.T, s *intervals, jitter float64, do func()) (waited time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s.changed = make(chan struct{}, 1) // of the bubble
		began := time.Now()
		go do()
		s.await(t.Context(), clock.RealClock{}, jitter)
		waited = time.Since(began)
	})
	return waited
}

func TestAChangeOfTheIntervalTakesEffectAtOnce(t *testing.T) {
	a, b := &Informer{}, &Informer{}
	for name, test := range map[string]struct {
		do   func(s *intervals)
		want time.Duration
	}{
		"no change":                    {func(*intervals) {}, time.Hour},
		"shorter":                      {func(s *intervals) { time.Sleep(time.Minute); s.set(b, 5*time.Minute) }, 5 * time.Minute}, // fake time
		"shorter than what has passed": {func(s *intervals) { time.Sleep(time.Minute); s.set(b, time.Second) }, time.Minute},       // fake time
		"longer":                       {func(s *intervals) { time.Sleep(time.Minute); s.set(a, 2*time.Hour) }, 2 * time.Hour},     // fake time
		"shorter and longer again": {func(s *intervals) {
			s.set(b, 2*time.Minute)
			time.Sleep(time.Minute) // fake time
			s.set(b, 0)
		}, time.Hour},
		"changes often": {func(s *intervals) {
			for range 600 {
				time.Sleep(time.Second) // fake time
				s.set(b, 2*time.Hour)
				s.set(b, 0)
			}
		}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIntervals()
			s.set(a, time.Hour)
			if got := waits(t, &s, 0, func() { test.do(&s) }); got != test.want {
				t.Errorf("waited %s, want %s", got, test.want)
			}
		})
	}
}

func TestJitterLengthensTheInterval(t *testing.T) {
	s := newIntervals()
	if got := waits(t, &s, pollJitter, func() {}); got != 33*time.Second {
		t.Errorf("waited %s", got)
	}
	synctest.Test(t, func(t *testing.T) {
		s := newIntervals()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if s.await(ctx, clock.RealClock{}, 0); time.Since(began) != time.Second {
			t.Errorf("waited %s though it was to stop", time.Since(began))
		}
	})
}

// Users of one informer come and go, each with an interval of its own.
func TestUsersOfAnInformerPollAtTheShortestOfTheirIntervals(t *testing.T) {
	p := newPollPeer(t)
	c := p.open(Config{})
	first := p.acquire(c, scope.All(polled))
	first.PollEvery(time.Hour)
	p.awaitInterval(time.Hour)
	p.clock.Step(10 * time.Minute)
	if p.idle(); lists(c) != 1 {
		t.Fatalf("%d lists", lists(c))
	}
	second := p.acquire(c, scope.All(polled))
	if got := c.Following()[0].Interval; got != time.Hour {
		t.Errorf("with a user that has set no interval it is %s", got)
	}
	second.PollEvery(0) // the default, since 10 minutes ago
	await.Until(t, "the kind is listed", func() bool { return lists(c) == 2 })
	second.PollEvery(time.Millisecond) // counts as a second
	p.awaitInterval(time.Second)
	p.after(c, 1100*time.Millisecond)
	if got := c.Following()[0].Interval; got != time.Second {
		t.Errorf("the interval is %s", got)
	}
	second.Release()
	p.awaitInterval(time.Hour)
	n := lists(c)
	p.idle()
	p.clock.Step(time.Hour - time.Second)
	if p.idle(); lists(c) != n {
		t.Error("the interval of a user counts that was released")
	}
	p.after(c, 7*time.Minute)
	narrow := first.Narrow(first.Scope())
	narrow.Release()
	first.Release()
	first.Release()
	if got := c.Following()[0].Interval; got != DefaultPollInterval {
		t.Errorf("without users: %s", got)
	}
}
