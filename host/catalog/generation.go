package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Module is a plugin as its source has it.
type Module struct {
	Name   string
	Digest string                 // sha256 in hex
	Read   func() ([]byte, error) // reads the file; fails if it has another digest by now
	Policy []byte                 // the administrator's, nil if there is none
	Err    error                  // why it could not be read
}

// same says whether two modules are the same code under the same policy.
func (m *Module) same(g *Generation) bool {
	return g != nil && g.Digest == m.Digest && bytes.Equal(g.Policy, m.Policy)
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
}

// Runner runs generations.
type Runner interface {
	// Start makes ready what the generation needs and then puts it in the
	// place of the plugin's generation before, if there is one. On an error,
	// a [*WaitError] among them, the one before goes on.
	Start(ctx context.Context, g *Generation) error
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

// Generation is a plugin at one digest.
type Generation struct {
	Plugin   string
	Digest   string
	Policy   []byte
	Number   int // 1 for the plugin's first
	Manifest *abi.Manifest
	Guest    Guest
}

// State is what a plugin is doing.
type State string

// The states of a plugin.
const (
	Loading State = "loading" // its first generation is being compiled or started
	Waiting State = "waiting" // for something that is not there yet, such as a CRD
	Running State = "running"
	Failed  State = "failed" // no generation runs
)

// Status tells people about a plugin.
type Status struct {
	Name        string    `json:"name"`
	State       State     `json:"state"`
	Digest      string    `json:"digest,omitempty"` // of the running generation
	Version     string    `json:"version,omitempty"`
	Generation  int       `json:"generation"`
	Controllers []string  `json:"controllers"`
	LastError   string    `json:"lastError,omitempty"`   // of the newest module, while it does not run
	RejectedFor string    `json:"rejectedFor,omitempty"` // the step that failed
	Since       time.Time `json:"since"`                 // of the state
}

// failure is why a module does not run; step labels the metric.
type failure struct {
	step string
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// step names where a load failed, from a bounded set.
func step(err error) string {
	var f *failure
	var s interface{ LoadStep() string }
	var w *WaitError
	switch {
	case errors.As(err, &w):
		return "waiting"
	case errors.As(err, &f):
		return f.step
	case errors.As(err, &s):
		return s.LoadStep()
	default:
		return "start"
	}
}

// mayPass says whether an attempt that failed may succeed later without a new
// module: what it waits for may come, who it overlaps with may go, and a file
// that was replaced while it was read may be the same again.
func mayPass(err error) bool {
	var f *failure
	var s interface{ LoadStep() string }
	var w *WaitError
	return errors.As(err, &w) || errors.As(err, &f) && f.step == "overlap" || errors.As(err, &s) && s.LoadStep() == "read"
}

// overlap refuses a generation whose controllers write what a controller of
// another plugin writes: the same target condition of the same kind.
func overlap(g *Generation, others []*Generation) error {
	targets := map[string]string{}
	for _, other := range others {
		claim(targets, other)
	}
	for _, c := range g.Manifest.Controllers {
		if !object.HasConditions(&c) {
			continue
		}
		if holder, taken := targets[target(c)]; taken {
			return &failure{"overlap", fmt.Errorf(
				"controller %q and %s both write the condition %s of %s; give one of them another conditions.target",
				g.Plugin+"/"+c.Name, holder, c.Conditions.TargetOrReady(), c.For)}
		}
		targets[target(c)] = fmt.Sprintf("%q", g.Plugin+"/"+c.Name)
	}
	return nil
}

func claim(targets map[string]string, g *Generation) {
	for _, c := range g.Manifest.Controllers {
		if !object.HasConditions(&c) {
			continue
		}
		targets[target(c)] = fmt.Sprintf("%q", g.Plugin+"/"+c.Name)
	}
}

// target is what at most one controller of a host may write. The version of
// the API does not count: conditions are the same in every one.
func target(c abi.Controller) string {
	return c.For.Group() + "/" + c.For.Kind + "/" + c.Conditions.TargetOrReady()
}
