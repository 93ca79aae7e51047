package source

import "time"

// schedule decides when to scan. It is told what happens and has no clock of
// its own.
type schedule struct {
	quiet, period time.Duration

	start       time.Time
	first, last time.Time // notification since the last scan began; zero: none
	due         time.Time // when a file that was not settled wants to be seen again; zero: none is
	begun       time.Time // the last scan; zero: none yet
	rested      time.Time // no scan before
}

func newSchedule(c Config, now time.Time) *schedule {
	return &schedule{quiet: c.Quiet, period: c.Period, start: now, due: now}
}

// notified takes note that something happened.
func (s *schedule) notified(now time.Time) {
	if s.first.IsZero() {
		s.first = now
	}
	s.last = now
}

// scanned takes note of a scan. Scans of a large directory on a slow file
// system may follow each other for long: they take at most a fifth of the
// time, but for a pause of [patience] at most.
func (s *schedule) scanned(begin, end, due time.Time) {
	s.first, s.last = time.Time{}, time.Time{}
	s.begun, s.due = begin, due
	s.rested = end.Add(min(4*end.Sub(begin), patience))
}

// next is when to scan next: after the quiet time that follows a burst of
// notifications, but soon after the first of a burst that does not end; when
// an unsettled file is due; and periodically.
func (s *schedule) next() time.Time {
	next := s.begun.Add(s.period)
	if s.begun.IsZero() {
		next = s.start
	}
	if !s.first.IsZero() {
		next = earliest(next, earliest(s.last.Add(s.quiet), s.first.Add(max(patience, s.quiet))))
	}
	next = earliest(next, s.due)
	if next.Before(s.rested) {
		return s.rested
	}
	return next
}

// waits says whether the first snapshot is still held back for files that are
// not settled.
func (s *schedule) waits(now time.Time) bool {
	return !s.due.IsZero() && now.Sub(s.start) < patience
}

// earliest is the earlier of two times; zero is never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
