package catalog

import (
	"context"
	"fmt"
	"time"
)

// A policy may pin the digest of the module. Nothing else of the plugin runs then: a file
// of another digest is refused, a running revision is replaced or halted, and there is no
// rollback to another one.

// pinGrace is for how long a revision that is no longer pinned may run on while the pinned
// module is loaded and started, so that its objects keep their place in the queue.
const pinGrace = 10 * time.Second

// pinError is a module that its policy does not pin.
type pinError struct{ plugin, digest, pinned string }

func (e *pinError) Error() string {
	return fmt.Sprintf("the file has the digest sha256:%s, and %s.yaml pins %s: put the pinned file there, or write digest: sha256:%[1]s into %[2]s.yaml",
		e.digest, e.plugin, e.pinned)
}

// LoadStep names the step for metrics.
func (*pinError) LoadStep() string { return stepPin }

// ensurePinned does what ensure does. A running revision that the policy does not pin has
// been replaced or halted when it returns.
func (s *supervisor[G]) ensurePinned(ctx context.Context, m *Module) error {
	if s.current == nil || m.Policy.Pins(s.current.Digest) {
		return s.ensure(ctx, m)
	}
	s.rejected = nil // what the module was rolled back to may not run
	soon, cancel := context.WithTimeout(ctx, pinGrace)
	defer cancel()
	err := s.ensure(soon, m)
	if err == nil {
		return nil
	}
	s.halt(byPolicy, fmt.Errorf("it pins %s, and sha256:%s runs", m.Policy.Digest, s.current.Digest))
	if soon.Err() != nil && ctx.Err() == nil {
		return s.ensure(ctx, m) // it takes longer
	}
	return err
}

// dropUnpinned closes the fallback if the policy does not pin it.
func (s *supervisor[G]) dropUnpinned(m *Module) {
	if s.fallback != nil && !m.Policy.Pins(s.fallback.Digest) {
		s.drop(s.fallback)
		s.fallback = nil
	}
}
