package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A replica that starts while the directory holds a module that cannot run has nothing to run: what
// ran instead of it was in the memory of the replicas that are gone. It runs the last good module
// then, as the leader has recorded it, if that is kept somewhere.

// restoreAfter is how long a module may wait for what it needs until the last good one runs in the
// meantime.
const restoreAfter = 10 * time.Second

// lastGood returns the digest of the module that would run if a newer one could not; "" if none has
// proved itself here yet.
func (s *supervisor[G]) lastGood() string {
	good := s.current
	if good != nil && !good.Probation.IsZero() {
		good = s.fallback
	}
	if good == nil || time.Now().Before(good.Proven) {
		return ""
	}
	return good.Digest
}

// provenFrom returns from when on a module counts as good that nothing runs before: after the time of
// a probation if another one is known to be good. That one was replaced while all replicas were gone,
// or had been replaced by this one, whose probation ended with them.
func (s *supervisor[G]) provenFrom(m *Module) time.Time {
	if s.c.Replicas == nil {
		return time.Time{}
	}
	if recorded, err := s.c.Replicas.Recorded(m); err != nil || recorded.Good == "" || recorded.Good == m.Digest {
		return time.Time{}
	}
	return time.Now().Add(s.c.Probation)
}

// restore starts the last good module if nothing runs and the newest one cannot. failed is why that
// cannot; the error is what is to be reported.
func (s *supervisor[G]) restore(ctx context.Context, m *Module, failed error) error {
	if failed == nil || s.current != nil {
		s.waits = time.Time{}
		return failed
	}
	if s.c.Replicas == nil || m.PolicyUnknown || s.displaces || ctx.Err() != nil {
		return failed
	}
	wait, waits := errors.AsType[*WaitError](failed)
	switch step := stepOf(failed); {
	case step == stepPolicy || step == stepPin || step == stepConflict || waits && wait.Denied:
		return failed // nothing of the plugin may run
	case temporary(failed):
		if s.waits.IsZero() {
			s.waits = time.Now()
		}
		if time.Since(s.waits) < restoreAfter {
			return failed
		}
	}
	recorded, err := s.c.Replicas.Recorded(m)
	digest := recorded.Good
	if err != nil || digest == "" || digest == m.Digest || slices.Contains(recorded.Rejected, digest) || !m.Policy.Pins(digest) {
		return failed
	}
	if s.lost == nil || s.lost.digest != digest {
		err := s.startKept(ctx, m, digest)
		switch {
		case err == nil:
			if s.rejected != nil {
				s.rejected.to = s.current.Number
			}
			return failed
		case ctx.Err() != nil:
			return failed
		case temporary(err):
			return &unrestoredError{failed, digest, err}
		}
		s.lost = &lostModule{digest, err}
	}
	return &unrestoredError{failed, digest, s.lost.err}
}

// startKept loads and starts the module with that digest, under the policy of m.
func (s *supervisor[G]) startKept(ctx context.Context, m *Module, digest string) error {
	bytes, err := s.c.Replicas.Kept(ctx, s.name, digest)
	if err != nil {
		return err
	}
	kept := &Module{Name: s.name, Digest: digest, Size: int64(len(bytes)), Policy: m.Policy, Read: func() ([]byte, error) { return bytes, nil }}
	guest, err := s.loadGuest(ctx, kept)
	if err != nil {
		return err
	}
	r := s.newRevision(kept, guest)
	s.keepClaim(digest)
	if err := s.replace(ctx, r); err != nil {
		s.free(r)
		return err
	}
	s.c.Logger.Warn("the last good module runs, since that of the directory cannot", "plugin", s.name, "digest", digest)
	return nil
}

// restorable reports whether the last good module may run later.
func restorable(err error) bool {
	unrestored, ok := errors.AsType[*unrestoredError](err)
	return ok && temporary(unrestored.good)
}

// lostModule is a last good module that cannot be started.
type lostModule struct {
	digest string
	err    error
}

// unrestoredError is why nothing runs.
type unrestoredError struct {
	newest error // why the newest module does not run
	digest string
	good   error // why the last good one does not
}

func (e *unrestoredError) Error() string {
	return fmt.Sprintf("%s; the last good module, sha256:%s, does not run either: %s", e.newest, e.digest, e.good)
}

// Unwrap returns the error of the newest module, which decides what becomes of it.
func (e *unrestoredError) Unwrap() error { return e.newest }
