package cache

import (
	"time"

	"k8s.io/utils/clock"
)

// interruptible is a clock for the reflector, which waits out a backoff
// without looking at its context: After fires early when done is closed.
type interruptible struct {
	clock.RealClock
	done <-chan struct{}
}

// After implements clock.Clock.
func (c interruptible) After(d time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	go func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case now := <-timer.C:
			fired <- now
		case <-c.done:
			fired <- time.Now()
		}
	}()
	return fired
}
