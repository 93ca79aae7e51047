package source

import (
	"testing"
	"time"
)

const ms = time.Millisecond

func TestNextScan(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	never := time.Time{}
	for name, test := range map[string]struct {
		before func(s *schedule)
		want   time.Duration
	}{
		"periodic scan": {func(s *schedule) { s.scanned(at(0), at(0), never) }, 10 * time.Second},
		"notification": {func(s *schedule) {
			s.scanned(at(0), at(0), never)
			s.notified = true
		}, minPause},
		"unstable file": {func(s *schedule) { s.scanned(at(0), at(0), at(70*ms)) }, 70 * ms},
		"notification before an unstable file is due": {func(s *schedule) {
			s.scanned(at(0), at(0), at(70*ms))
			s.notified = true
		}, minPause},
		"pause of four times the scan": {func(s *schedule) { s.scanned(at(0), at(50*ms), at(60*ms)) }, 250 * ms},
		"pause after a very slow scan": {func(s *schedule) {
			s.scanned(at(0), at(time.Minute), never)
			s.notified = true
		}, 61 * time.Second},
		"notification before the last scan": {func(s *schedule) {
			s.notified = true
			s.scanned(at(0), at(0), never)
		}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSchedule(10*time.Second, start)
			if first := s.next(); first.After(start) {
				t.Errorf("the first scan is at %s, want at once", first)
			}
			test.before(s)
			if got := s.next().Sub(start); got != test.want {
				t.Errorf("the next scan is after %s, want %s", got, test.want)
			}
		})
	}
}

func TestFirstSnapshotIsDelayedForUnstableFilesUpToABound(t *testing.T) {
	start := time.Now()
	s := newSchedule(10*time.Second, start)
	s.scanned(start, start, start.Add(ms))
	if !s.delaysFirst(start.Add(900*ms)) || s.delaysFirst(start.Add(1001*ms)) {
		t.Error("the first snapshot is not delayed by 1 s")
	}
	s.scanned(start, start, time.Time{})
	if s.delaysFirst(start) {
		t.Error("the first snapshot is delayed though all files are stable")
	}
}
