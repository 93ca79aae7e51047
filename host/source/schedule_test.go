package source

import (
	"testing"
	"time"
)

const ms = time.Millisecond

func TestWhenToScan(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	never := time.Time{}
	for name, test := range map[string]struct {
		told func(s *schedule)
		want time.Duration
	}{
		"at once at the start":                   {func(*schedule) {}, 0},
		"periodically":                           {func(s *schedule) { s.scanned(at(0), at(0), never) }, 10 * time.Second},
		"after the quiet time":                   {func(s *schedule) { s.scanned(at(0), at(0), never); s.notified(at(2 * time.Second)) }, 2025 * ms},
		"after the last notification of a burst": {burst(at, 5, 20*ms), time.Second + 5*20*ms + 25*ms},
		"soon after the first of a long one":     {burst(at, 200, 20*ms), time.Second + 20*ms + time.Second},
		"when a file is due": {func(s *schedule) {
			s.scanned(at(0), at(0), at(70*ms))
		}, 70 * ms},
		"at the earlier of the two": {func(s *schedule) {
			s.scanned(at(0), at(0), at(70*ms))
			s.notified(at(10 * ms))
		}, 35 * ms},
		"after a rest": {func(s *schedule) {
			s.scanned(at(0), at(50*ms), at(60*ms))
		}, 250 * ms},
		"after a rest that is bounded": {func(s *schedule) {
			s.scanned(at(0), at(time.Minute), never)
			s.notified(at(time.Minute))
		}, 61 * time.Second},
		"a scan answers what was told before": {func(s *schedule) {
			s.notified(at(0))
			s.scanned(at(0), at(0), never)
		}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSchedule(Config{}.withDefaults(), start)
			test.told(s)
			if got := s.next().Sub(start); got != test.want {
				t.Errorf("next scan after %s, want %s", got, test.want)
			}
		})
	}
}

// burst is of n notifications from a second after a scan on.
func burst(at func(time.Duration) time.Time, n int, apart time.Duration) func(s *schedule) {
	return func(s *schedule) {
		s.scanned(at(0), at(0), time.Time{})
		for i := range n {
			s.notified(at(time.Second + time.Duration(i+1)*apart))
		}
	}
}

func TestTheFirstSnapshotWaitsForUnsettledFilesButNotForLong(t *testing.T) {
	start := time.Now()
	s := newSchedule(Config{}.withDefaults(), start)
	s.scanned(start, start, start.Add(ms))
	if !s.waits(start.Add(900*ms)) || s.waits(start.Add(1001*ms)) {
		t.Error("waits too long or not at all")
	}
	s.scanned(start, start, time.Time{})
	if s.waits(start) {
		t.Error("waits for nothing")
	}
}
