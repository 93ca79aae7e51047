package catalog

import (
	"errors"
	"time"
)

// State is what a plugin is doing.
type State string

// The states of a plugin. A host adds [Quarantined], which is not the
// catalog's to know.
const (
	Loading     State = "loading" // its first generation is being compiled or started
	Waiting     State = "waiting" // for something that is not there yet, such as a CRD
	Running     State = "running"
	Degraded    State = "degraded"    // the last good generation runs, in place of a newer module
	Quarantined State = "quarantined" // it runs, and its circuit breaker is not closed
	Failed      State = "failed"      // no generation runs
	Draining    State = "draining"    // its file is gone, its last runs end
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
	Rejected    string    `json:"rejectedDigest,omitempty"`
	Loads       int       `json:"loads"`     // generations that began to run, rolled back ones again
	Rollbacks   int       `json:"rollbacks"` // to the generation before
	Since       time.Time `json:"since"`     // of the state
}

// describe tells how the slot stands after an attempt at a module.
func (s *slot) describe(m *Module, err error) Status {
	out := Status{
		Name: s.name, State: Failed, Controllers: []string{}, Since: time.Now(),
		Loads: s.loads, Rollbacks: s.rollbacks,
	}
	if s.current != nil {
		out.State = Running
		out.Digest = s.current.Digest
		out.Version = s.current.Manifest.Version
		out.Generation = s.current.Number
		for _, c := range s.current.Manifest.Controllers {
			out.Controllers = append(out.Controllers, c.Name)
		}
	}
	if err == nil {
		return out
	}
	out.LastError, out.RejectedFor, out.Rejected = err.Error(), step(err), m.Digest
	var wait *WaitError
	switch waits := errors.As(err, &wait); {
	case s.current != nil:
		out.State = Degraded
	case waits:
		out.State = Waiting
	}
	return out
}
