package catalog

import (
	"context"
	"errors"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
)

// Module is a plugin as its source has it.
type Module struct {
	Name   string
	Digest string                 // SHA-256 in hex
	Size   int64                  // of the file, in bytes
	Read   func() ([]byte, error) // reads the file; fails if it has another digest by now
	Policy config.Policy
	// PolicyUnknown is set if the policy cannot be used; Policy is empty then. Without it
	// Policy holds even if the file cannot be used.
	PolicyUnknown bool
	// Err is why the file or its policy cannot be used. If it has a method
	// LoadStep, that names the step; else it is "read".
	Err error
}

// equal reports whether both are the same code under the same policy, or cannot
// be used for the same reason.
func (m *Module) equal(other *Module) bool {
	return m.Digest == other.Digest && m.Policy.Equal(other.Policy) && m.PolicyUnknown == other.PolicyUnknown && errorText(m.Err) == errorText(other.Err)
}

// unusable returns why the module cannot run whatever its code is; nil if it may.
func (m *Module) unusable() error {
	switch {
	case m.Err != nil && stepOf(m.Err) == stepPolicy:
		return m.Err
	case m.Err != nil:
		return &stepError{stepRead, m.Err}
	case !m.Policy.Pins(m.Digest):
		return &pinError{m.Name, m.Digest, m.Policy.Digest}
	}
	return nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Guest is a module that was loaded.
type Guest interface {
	Manifest() *abi.Manifest
	// Close blocks until no call is in progress and frees the guest.
	Close(ctx context.Context) error
}

// Loader verifies and compiles modules.
type Loader[G Guest] interface {
	Load(ctx context.Context, m *Module) (G, error)
	// WithPolicy returns the code of a guest that is not closed under the policy
	// of m, without reading or compiling it again.
	WithPolicy(ctx context.Context, guest G, m *Module) (G, error)
}

// Runner runs revisions.
type Runner[G Guest] interface {
	// Start prepares what the revision needs and then replaces the running
	// revision of the plugin, if there is one; it then reports
	// [events.PluginStarted]. In between, when nothing else can fail any more, it calls
	// claim. After an error, also of claim, the running revision keeps running. A [*WaitError] is tried again.
	Start(ctx context.Context, r *Revision[G], claim func() error) error
	// LackedRight returns which right the account of a revision lacks without which it could not do
	// its work on its primaries, and what to do about it; "" if it lacks none.
	LackedRight(ctx context.Context, r *Revision[G]) (string, error)
	// Healthy reports whether the running revision may be rolled back to although
	// it is on probation itself: it has run and failed for no more objects than
	// the one before it.
	Healthy(plugin string) bool
	// Impairments returns those of a plugin that runs. It must be quick.
	Impairments(plugin string) Impairments
	// Stop ends the controllers of the plugin and blocks until none is running.
	// removed states that the file is gone; else the host is stopping.
	Stop(plugin string, removed bool)
	// Discard is called before the guest of a revision is closed, whether that was ever started or
	// not. It may be called at any time.
	Discard(r *Revision[G])
}

// Revision is a plugin at one digest, under one policy.
type Revision[G Guest] struct {
	events.Revision
	Policy   config.Policy
	Manifest *abi.Manifest
	Guest    G
	// Probation is until when the revision may be rolled back; zero: it is not on
	// probation.
	Probation time.Time
	// RollBack reports that the revision fails for more objects than the one before it, with the number that it was
	// started with: see [Catalog.RollBack].
	RollBack func(number int, reason string)
	// Proven is from when on the revision counts as good that nothing ran before; zero: at once.
	Proven time.Time
}

// hasDigest reports whether r, which may be nil, is the code with that digest.
func (r *Revision[G]) hasDigest(digest string) bool { return r != nil && r.Digest == digest }

// matches reports whether r, which may be nil, is the module's code under its
// policy.
func (r *Revision[G]) matches(m *Module) bool {
	return r.hasDigest(m.Digest) && r.Policy.Equal(m.Policy)
}

// identity returns what events state of r; nil for nil.
func (r *Revision[G]) identity() *events.Revision {
	if r == nil {
		return nil
	}
	return &r.Revision
}

func (s *supervisor[G]) newRevision(m *Module, guest G) *Revision[G] {
	s.number++
	manifest := guest.Manifest()
	return &Revision[G]{
		Revision: events.Revision{Plugin: s.name, Number: s.number, Version: manifest.Version, Digest: m.Digest},
		Policy:   m.Policy, Manifest: manifest, Guest: guest,
		RollBack: func(number int, reason string) { s.c.RollBack(s.name, number, reason) },
	}
}

// withPolicy returns a revision of the same code under a policy: r itself if it
// has that policy.
func (s *supervisor[G]) withPolicy(ctx context.Context, r *Revision[G], policy config.Policy) (*Revision[G], error) {
	if r.Policy.Equal(policy) {
		return r, nil
	}
	m := &Module{Name: s.name, Digest: r.Digest, Policy: policy}
	guest, err := s.c.Loader.WithPolicy(ctx, r.Guest, m)
	if err != nil {
		return nil, err
	}
	again := s.newRevision(m, guest)
	again.Proven = r.Proven
	return again, nil
}

// WaitError reports that a revision cannot start yet although nothing is wrong
// with it. It is tried again.
type WaitError struct {
	Reason string // what it waits for, for people
	// Denied is set if it waits for its policy to allow what it needs: nothing of the
	// plugin may run under that policy.
	Denied bool
}

func (e *WaitError) Error() string { return e.Reason }

// stepError is an error of the catalog itself, with the step that failed.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string    { return e.err.Error() }
func (e *stepError) Unwrap() error    { return e.err }
func (e *stepError) LoadStep() string { return e.step }

// StepProbation is the step of a module that was rolled back.
const StepProbation = "probation"

// Further steps that are the catalog's own. Others are those of the loader.
const (
	stepRead     = "read"
	stepPolicy   = "policy"
	stepPin      = "digest" // its policy pins another one
	stepConflict = "overlap"
)

// stepOf names the step at which a module failed, from a bounded set.
func stepOf(err error) string {
	var wait *WaitError
	var step interface{ LoadStep() string }
	switch {
	case errors.As(err, &wait):
		return "waiting"
	case errors.As(err, &step):
		return step.LoadStep()
	default:
		return "start"
	}
}

// printedBy returns what guest code printed as it failed with an error, "" for nothing.
func printedBy(err error) string {
	var guest interface{ GuestPrinted() string }
	if errors.As(err, &guest) {
		return guest.GuestPrinted()
	}
	return ""
}

// temporary reports whether an attempt that failed may succeed later with the
// same module: what it waits for may appear, the plugin that it conflicts with
// may be removed, and a file that was replaced while it was read may be complete.
func temporary(err error) bool {
	var read *stepError // the source reports a file that it could not read again by itself
	switch stepOf(err) {
	case "waiting", stepConflict:
		return true
	case stepRead:
		return !errors.As(err, &read)
	}
	return false
}
