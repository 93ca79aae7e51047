package main

import "time"

// This file has what depends on the time alone: for a run, and for the scans that find what is due.

// shouldStartNow reports whether the start of an instance has come.
func shouldStartNow(s Spec, now time.Time) bool { return !s.ScheduledStart.Time().After(now) }

// isExpired reports whether the time of an instance that runs is over.
func isExpired(s Status, now time.Time) bool { return !s.ExpiresAt.Time().After(now) }

// isOver reports whether the retention of an instance that has ended is over.
func isOver(s Status, retention time.Duration, now time.Time) bool {
	return !s.EndedAt.Time().Add(retention).After(now)
}
