package source

import "time"

const (
	// minPause is the shortest time between two scans. It bounds the scans of
	// a burst of notifications.
	minPause = 10 * time.Millisecond
	// maxDelay bounds two delays that could otherwise be arbitrarily long: the
	// pause after a slow scan, and the wait of the first snapshot for files
	// that keep changing.
	maxDelay = time.Second
)

// schedule decides when to scan. Its caller passes the time.
type schedule struct {
	period   time.Duration
	start    time.Time
	notified bool      // something has happened since the last scan began
	begun    time.Time // when the last scan began; zero before the first one
	due      time.Time // when an unstable file needs a scan; zero if there is none
	earliest time.Time // the next scan must not begin before
}

func newSchedule(period time.Duration, now time.Time) *schedule {
	return &schedule{period: period, start: now}
}

// scanned records a scan. due is when the next one is needed because of
// unstable files, zero if there are none.
//
// Scans take at most a fifth of the time, so that a flood of notifications in
// a large directory does not occupy a processor.
func (s *schedule) scanned(begin, end, due time.Time) {
	s.notified, s.begun, s.due = false, begin, due
	s.earliest = end.Add(max(minPause, min(4*end.Sub(begin), maxDelay)))
}

// next returns when to scan next. It is in the past before the first scan.
func (s *schedule) next() time.Time {
	next := earliest(s.begun.Add(s.period), s.due)
	if s.notified || next.Before(s.earliest) {
		return s.earliest
	}
	return next
}

// delaysFirst reports whether the first snapshot still has to wait for files
// that are not stable.
func (s *schedule) delaysFirst(now time.Time) bool {
	return !s.due.IsZero() && now.Sub(s.start) < maxDelay
}

// earliest returns the earlier of two times, where zero stands for never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
