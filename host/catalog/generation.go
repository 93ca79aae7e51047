package catalog

import (
	"bytes"
	"context"
	"time"

	"github.com/thole-dev/thole/abi"
)

// Module is a plugin as its source has it.
type Module struct {
	Name   string
	Digest string                 // sha256 in hex
	Read   func() ([]byte, error) // reads the file; fails if it has another digest by now
	Policy []byte                 // the administrator's, nil if there is none
	Err    error                  // why it could not be read
}

// same says whether g is the module's code under its policy.
func (m *Module) same(g *Generation) bool { return g.is(m.Digest) && bytes.Equal(g.Policy, m.Policy) }

// equal says whether both are the same code under the same policy, or cannot
// be read for the same reason.
func (m *Module) equal(other *Module) bool {
	return m.Digest == other.Digest && bytes.Equal(m.Policy, other.Policy) && sameText(m.Err, other.Err)
}

func sameText(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
}

// Guest is a module that was loaded.
type Guest interface {
	Manifest() *abi.Manifest
	// Close waits for the calls in flight and frees the guest.
	Close(ctx context.Context) error
}

// Loader verifies and compiles modules, within the limits of their policies.
type Loader interface {
	Load(ctx context.Context, m *Module) (Guest, error)
	// Reload answers the code of a guest that is running or was, under the
	// module's policy, without reading or compiling it.
	Reload(ctx context.Context, guest Guest, m *Module) (Guest, error)
}

// Runner runs generations.
type Runner interface {
	// Start makes ready what the generation needs and then puts it in the
	// place of the plugin's generation before, if there is one. On an error,
	// a [*WaitError] among them, the one before goes on.
	Start(ctx context.Context, g *Generation) error
	// Sound says whether the generation that runs has done its work and no
	// worse than the one before: it may be gone back to although it is on
	// probation.
	Sound(plugin string) bool
	// Stop ends the plugin's controllers and returns when none runs. removed
	// says that its file is gone, and not that the host ends.
	Stop(plugin string, removed bool)
}

// WaitError says that a generation cannot start yet, through no fault of its
// own: it is tried again.
type WaitError struct {
	Reason string // what it waits for, for people
}

func (e *WaitError) Error() string { return e.Reason }

// Generation is a plugin at one digest, under one policy.
type Generation struct {
	Plugin   string
	Digest   string
	Policy   []byte
	Number   int // 1 for the plugin's first
	Manifest *abi.Manifest
	Guest    Guest
	// Probation is until when the generation may be rolled back; zero: it is
	// not on probation.
	Probation time.Time
}

// is says whether g, which may be nil, is the code with that digest.
func (g *Generation) is(digest string) bool { return g != nil && g.Digest == digest }
