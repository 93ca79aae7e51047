package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/deadline"
	"github.com/thole-dev/thole/host/sandbox/native"
)

// slow remembers the plugins whose load took too long: trying one again would
// take as long again.
type slow struct {
	mu    sync.Mutex
	loads map[attempt]*LoadError
	order []attempt // oldest first
}

// attempt is what a load's outcome depends on.
type attempt struct {
	digest string
	limits Limits
}

// mostSlow is how many are remembered; then the oldest is forgotten.
const mostSlow = 256

// notAgain is what a user reads behind the reason.
const notAgain = "it is not tried again until the file or its limits change, or the host restarts"

// refuse says why the guest is not tried, or nil.
func (s *slow) refuse(g *Guest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.loads[attempt{g.digest, g.limits}]
	if !ok {
		return nil
	}
	return g.refuse(before.Step, before.Err)
}

// note remembers the error of a load if it was too slow.
func (s *slow) note(g *Guest, err error) error {
	failed, ok := errors.AsType[*LoadError](err)
	if !ok || !tooSlow(failed) {
		return err
	}
	told := &LoadError{Plugin: failed.Plugin, Step: failed.Step, Err: fmt.Errorf("%w; %s", lean(failed.Err), notAgain)}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := attempt{g.digest, g.limits}
	if s.loads[key] == nil {
		s.order = append(s.order, key)
	}
	if len(s.order) > mostSlow {
		delete(s.loads, s.order[0])
		s.order = slices.Delete(s.order, 0, 1)
	}
	if s.loads == nil {
		s.loads = map[attempt]*LoadError{}
	}
	s.loads[key] = told
	return told
}

func tooSlow(err *LoadError) bool {
	return errors.Is(err, deadline.ErrPassed) || errors.Is(err, native.ErrHeavy) || err.FailureClass() == abi.ClassTimeout
}

// lean is an error without what a guest has printed.
func lean(err error) error {
	fault, ok := errors.AsType[*Fault](err)
	if !ok {
		return err
	}
	out := *fault
	out.Stdout, out.Stderr = nil, nil
	return &out
}
