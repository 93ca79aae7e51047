package egress

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// State is what the clients of a plugin share, those of all its revisions: the limits, the circuits of
// hosts, and the credentials that no answer may have.
type State struct {
	slots    slots
	once     sync.Once // makes rate, with the burst of the first limits
	rate     *rate.Limiter
	circuits *circuits // nil: none
	withheld withheld
}

// NewState returns the state of a plugin that has sent no requests.
func NewState() *State { return newState(time.Now) }

// NewStateWithoutCircuits returns a state for a caller that makes pauses of its own after failures: its
// requests are sent whatever has become of the last ones.
func NewStateWithoutCircuits() *State { return &State{} }

func newState(now func() time.Time) *State {
	return &State{circuits: newCircuits(now)}
}

// limit sets the limits, also for the requests of older revisions.
func (s *State) limit(atOnce int, perSecond float32) {
	s.slots.limit(atOnce)
	s.once.Do(func() { s.rate = rate.NewLimiter(rate.Limit(perSecond), atOnce) })
	s.rate.SetLimit(rate.Limit(perSecond))
	s.rate.SetBurst(atOnce)
}

// slots bound the requests at once. The bound can change: requests beyond a lower one go on, and no
// other begins until there are fewer.
type slots struct {
	mu    sync.Mutex
	most  int
	used  int
	freed chan struct{} // closed when a request may be able to begin; nil: none waits
}

// limit sets how many requests there may be at once.
func (s *slots) limit(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
	s.wake()
}

// enter waits until a request may begin. The function that it returns must be called when the request has
// ended. It reports false if ctx has ended before.
func (s *slots) enter(ctx context.Context) (leave func(), ok bool) {
	for {
		freed := s.tryEnter()
		if freed == nil {
			return s.leave, true
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// tryEnter returns nil if the request may begin, otherwise a channel that is closed when it may be able to.
func (s *slots) tryEnter() (freed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used < s.most {
		s.used++
		return nil
	}
	if s.freed == nil {
		s.freed = make(chan struct{})
	}
	return s.freed
}

func (s *slots) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.wake()
}

// wake wakes all that wait. mu must be held.
func (s *slots) wake() {
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}
