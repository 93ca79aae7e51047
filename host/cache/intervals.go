package cache

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/thole-dev/thole/host/cache/scope"
)

const (
	// DefaultPollInterval is the interval of users none of whom has set one.
	DefaultPollInterval = scope.DefaultPollInterval
	// MinPollInterval is the shortest interval. A shorter one counts as this one.
	MinPollInterval = time.Second
)

// PollEvery sets the time between two lists of a kind that cannot be watched; 0 stands for
// [DefaultPollInterval]. Of the users of an informer the one with the shortest interval
// counts, until it is released. A kind that is watched is not listed.
func (i *Informer) PollEvery(interval time.Duration) {
	if interval == 0 {
		interval = DefaultPollInterval
	}
	for _, p := range i.parts {
		if p.poller != nil {
			p.poller.set(i, max(interval, MinPollInterval))
		}
	}
}

// stopPolling ends that the interval of the user counts.
func (i *Informer) stopPolling() {
	for _, p := range i.parts {
		if p.poller != nil {
			p.poller.set(i, 0)
		}
	}
}

// intervals are those at which the users of an informer want to have the kind listed.
type intervals struct {
	mu     sync.Mutex
	byUser map[*Informer]time.Duration
	// changed receives when the shortest interval may be another one. It has a
	// capacity of 1.
	changed chan struct{}
}

func newIntervals() intervals {
	return intervals{byUser: map[*Informer]time.Duration{}, changed: make(chan struct{}, 1)}
}

// set sets the interval of a user, or removes it if that is 0.
func (s *intervals) set(user *Informer, interval time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.byUser, user); interval > 0 {
		s.byUser[user] = interval
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// interval returns the shortest interval, and the default one while there are no users.
func (s *intervals) interval() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	shortest := time.Duration(0)
	for _, interval := range s.byUser {
		if shortest == 0 || interval < shortest {
			shortest = interval
		}
	}
	if shortest == 0 {
		return DefaultPollInterval
	}
	return shortest
}

// await waits until the interval is over, with that part of it as jitter. The beginning
// counts if the interval changes meanwhile: it may be over at once.
func (s *intervals) await(ctx context.Context, clock clock.WithTickerAndDelayedExecution, jitter float64) {
	for since := clock.Now(); ctx.Err() == nil; {
		interval := s.interval()
		interval += time.Duration(float64(interval) * jitter)
		left := interval - clock.Since(since)
		if left <= 0 {
			return
		}
		timer := clock.NewTimer(left)
		select {
		case <-ctx.Done():
		case <-s.changed:
		case <-timer.C():
		}
		timer.Stop()
	}
}
