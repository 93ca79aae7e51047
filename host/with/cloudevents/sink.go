package cloudevents

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/with/http/egress"
)

const (
	// firstPause is that after the first request that has failed. It doubles up to lastPause.
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
	// pauseJitter is the share of a pause that is added at most.
	pauseJitter = 0.2
)

// identity is by what a sink of another revision is the same: its buffer is kept.
type identity struct{ name, url string }

// sink sends the events of a buffer.
type sink struct {
	identity
	*buffer
	report *report
	state  *egress.State
	target atomic.Pointer[target] // replaced with each revision

	cancel context.CancelFunc // ends what is being sent
	lanes  sync.WaitGroup

	mu    sync.Mutex
	woken chan struct{}       // closed, and replaced, to end all pauses
	told  map[string]struct{} // the controllers whose objects were announced
}

// newSink returns a sink that begins to send.
func newSink(id identity, to *target, state *egress.State, report *report) *sink {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sink{identity: id, buffer: newBuffer(report.Buffered), report: report, state: state, cancel: cancel, woken: make(chan struct{}), told: map[string]struct{}{}}
	s.target.Store(to)
	for i := range s.buffer.lanes {
		s.lanes.Go(func() { s.run(ctx, &s.buffer.lanes[i]) })
	}
	return s
}

// run sends the events of a lane until ctx is done, or the buffer is closed and the lane empty.
func (s *sink) run(ctx context.Context, l *lane) {
	for pause := time.Duration(0); ; {
		to, woken := s.target.Load(), s.wakes()
		most, size := to.batch()
		events, closed := s.first(l, most, size)
		switch {
		case len(events) > 0:
		case closed:
			return
		default:
			select {
			case <-l.added:
			case <-ctx.Done():
				return
			}
			continue
		}
		a := to.send(ctx, events)
		if ctx.Err() != nil {
			return // what is left is counted by who has ended it
		}
		if pause = s.settle(l, len(events), a, pause); pause > 0 && !sleep(ctx, max(a.after, outcome.AddJitter(pause, pauseJitter, rand.Float64())), woken) {
			return
		}
	}
}

// settle handles the answer to the first n events of a lane. It returns the pause before the next request,
// given that before this one.
func (s *sink) settle(l *lane, n int, a answer, pause time.Duration) time.Duration {
	switch {
	case a.verdict == failed:
		pause = min(max(2*pause, firstPause), lastPause)
		s.report.failed(a.why, max(a.after, pause))
		return pause
	case a.verdict == refused && n > 1:
		s.separate(l, n) // one of them may be the reason
		return 0
	case a.verdict == refused:
		s.report.dropped(dropRefused, n, a.why)
	default:
		s.report.taken(n)
	}
	s.remove(l, n)
	return 0
}

// sleep waits, and reports whether ctx is not done. It ends early when woken is closed.
func sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-woken:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// wakes returns the channel that ends the pauses which begin now.
func (s *sink) wakes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.woken
}

// wake ends all pauses: what has failed may work now.
func (s *sink) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.woken)
	s.woken = make(chan struct{})
}

// retarget makes the next requests go out in another way.
func (s *sink) retarget(to *target) {
	s.target.Swap(to).client.Close()
	s.wake()
}

// end ends the sink. What the buffer has is sent for that long, and then dropped for the reason.
func (s *sink) end(within time.Duration, reason string) {
	s.close()
	s.wake()
	if within <= 0 {
		s.cancel()
	}
	cut := time.AfterFunc(within, s.cancel)
	s.lanes.Wait()
	cut.Stop()
	s.cancel()
	s.target.Load().client.Close()
	s.report.dropped(reason, s.len(), "they were in the buffer")
	s.report.end()
}
