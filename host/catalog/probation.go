package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole/host/events"
)

// A revision with new code is on probation at first: the revision before it is
// kept, and runs again if the runner reports that the new one fails for more
// objects ([Catalog.RollBack]). A policy is not on probation: whoever narrowed it
// meant it.

// probationFailure reports that a revision on probation does worse than the one
// before it.
type probationFailure struct {
	revision int
	reason   string
	reported bool // that it cannot be rolled back yet
	byOther  bool // another replica has found it
}

// rejection is a module that was rolled back.
type rejection struct {
	digest string
	reason string
	to     int  // the revision that runs instead; 0: none was started for it
	told   bool // [events.PluginRolledBack] was reported
}

// isOutdatedBy reports whether m is another module. One that cannot be read now
// may be the same.
func (r *rejection) isOutdatedBy(m *Module) bool { return m.Err == nil && m.Digest != r.digest }

func (r *rejection) Error() string {
	if r.to == 0 {
		return r.reason + "; it is tried when the file changes, or on SIGHUP of the replica that leads"
	}
	return fmt.Sprintf("rolled back to revision %d: %s; it is tried again when the file changes, or on SIGHUP", r.to, r.reason)
}

// LoadStep names the step for metrics.
func (*rejection) LoadStep() string { return StepProbation }

// reject records that a revision failed, unless a newer one has: runs of a
// replaced revision may end late. s.mu is held. It reports whether an attempt in
// progress must be interrupted.
func (s *supervisor[G]) reject(f *probationFailure) (interrupt bool) {
	if s.failed != nil && s.failed.revision > f.revision {
		return false
	}
	s.failed = f
	return true
}

// accept forgets a failure that was dealt with.
func (s *supervisor[G]) accept(f *probationFailure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == f {
		s.failed = nil
	}
}

// probationOf returns until when code would be on probation that replaces the
// running revision now; zero: it would not be.
func (s *supervisor[G]) probationOf(digest string) time.Time {
	switch {
	case s.c.Probation == 0 || s.current == nil || s.fallback.hasDigest(digest):
		return time.Time{}
	case s.current.hasDigest(digest):
		return s.current.Probation
	default:
		return time.Now().Add(s.c.Probation)
	}
}

// retire keeps the revision that was replaced as the fallback while the running
// one is on probation, and closes those that are not needed. A revision that was
// on probation itself becomes the fallback only if it was healthy. A pinned revision
// has no fallback.
func (s *supervisor[G]) retire(before *Revision[G], healthy bool) {
	switch {
	case s.current.Probation.IsZero() || s.current.Policy.Digest != "":
		s.drop(before)
		s.drop(s.fallback)
		s.fallback = nil
	case s.current.hasDigest(before.Digest):
		s.drop(before)
	case healthy || s.fallback == nil && before.Probation.IsZero():
		before.Probation = time.Time{}
		s.drop(s.fallback)
		s.fallback = before
	default:
		s.drop(before)
	}
}

// endProbation ends a probation whose time is over.
func (s *supervisor[G]) endProbation() {
	if s.current == nil || s.current.Probation.IsZero() || time.Now().Before(s.current.Probation) {
		return
	}
	s.c.Logger.Debug("the revision has passed its probation", "plugin", s.name, "revision", s.current.Number)
	s.current.Probation = time.Time{}
	s.drop(s.fallback)
	s.fallback = nil
}

// rollBack starts the fallback in place of the running revision, under the policy
// that is in force now, which the running one gets first: the fallback may have to wait.
// It returns false if that failed and another attempt may help. Where there are other replicas,
// it is [supervisor.resume] that makes this attempt.
func (s *supervisor[G]) rollBack(ctx context.Context, f *probationFailure, m *Module) (done bool) {
	switch {
	case s.current == nil || s.current.Number != f.revision || s.current.Probation.IsZero() || !m.Policy.Pins(s.current.Digest):
		s.accept(f)
		return true // it was replaced meanwhile or is now, or its probation has ended
	case s.fallback == nil:
		return s.rollBackFailed(ctx, f, errors.New("it is not kept, since a policy has pinned the digest of another one"))
	}
	if !m.PolicyUnknown && s.restrict(ctx, m.Policy) == nil {
		s.mu.Lock()
		f.revision = s.current.Number
		s.mu.Unlock()
	}
	if s.current == nil {
		s.accept(f)
		return true // its policy does not allow it any more
	}
	if s.c.Replicas != nil && !f.byOther {
		s.c.Replicas.Reject(m, s.current.Digest)
	}
	r, err := s.withPolicy(ctx, s.fallback, s.current.Policy)
	if err == nil {
		if err = s.start(ctx, r); err == nil {
			s.loads++
		}
	}
	if s.c.Replicas != nil && temporary(err) && ctx.Err() == nil {
		// The others do not run what was rejected, so it does not run here meanwhile.
		s.stopRunning()
		s.suspended, err = true, nil
	}
	if err != nil {
		if r != s.fallback {
			s.free(r)
		}
		return s.rollBackFailed(ctx, f, err)
	}
	s.accept(f)
	s.fallBackTo(r, f.reason)
	return true
}

// fallBackTo makes r, which is the fallback or the fallback under another policy, the running
// revision.
func (s *supervisor[G]) fallBackTo(r *Revision[G], reason string) {
	worse := s.current
	s.rejected = &rejection{digest: worse.Digest, reason: reason, to: r.Number, told: true}
	s.rollbacks++
	s.c.Events.Observe(events.PluginRolledBack{From: worse.Revision, To: r.Revision, Reason: reason})
	if r != s.fallback {
		s.drop(s.fallback)
	}
	s.current, s.fallback = r, nil
	s.drop(worse)
}

// rollBackFailed handles an error of a rollback, as rollBack does.
func (s *supervisor[G]) rollBackFailed(ctx context.Context, f *probationFailure, err error) (done bool) {
	if ctx.Err() != nil {
		return false // the next orders include the failure, unless another revision runs by then
	}
	if !f.reported {
		f.reported = true
		s.c.Logger.Error("the revision fails for more objects than the previous one, which cannot be started: it keeps running",
			"plugin", s.name, "revision", s.current.Number, "digest", s.current.Digest, "reason", f.reason, "error", err)
	}
	if temporary(err) {
		return false
	}
	s.accept(f)
	return true
}
