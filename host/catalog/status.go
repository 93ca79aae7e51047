package catalog

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/host/events"
)

// State is the state of a plugin.
type State string

// The states of a plugin. Quarantined and Standby are set by the host, which knows the circuit
// breakers and the other replicas; the catalog does not.
const (
	Loading     State = "loading"     // its first revision is being compiled or started
	Waiting     State = "waiting"     // for something that is not there yet, such as a CRD, or an entry in its policy
	Running     State = "running"     // the newest module runs
	Degraded    State = "degraded"    // a revision runs, but not that of the newest module
	Quarantined State = "quarantined" // it runs, and its circuit breaker is not closed
	Failed      State = "failed"      // no revision runs
	Standby     State = "standby"     // another replica of the host leads it, this one keeps it ready
	Draining    State = "draining"    // its file is gone, its last runs are ending
)

// States are all of them.
func States() []State {
	return []State{Loading, Waiting, Running, Degraded, Quarantined, Failed, Standby, Draining}
}

// Status is what people see of a plugin, in /plugins.
type Status struct {
	Name        string    `json:"name"`
	State       State     `json:"state"`
	Digest      string    `json:"digest,omitempty"`  // of the running revision, in hex
	Version     string    `json:"version,omitempty"` // of the running revision
	Revision    int       `json:"revision"`          // that is running; 0: none
	Controllers []string  `json:"controllers"`
	LastError   string    `json:"lastError,omitempty"`      // of the newest module, while it does not run
	FailedStep  string    `json:"rejectedFor,omitempty"`    // the step at which it failed
	Rejected    string    `json:"rejectedDigest,omitempty"` // its digest
	Good        string    `json:"lastGood,omitempty"`       // that runs if a newer one cannot, in hex
	Loads       int       `json:"loads"`                    // revisions that were started, also by a rollback
	Rollbacks   int       `json:"rollbacks"`
	Since       time.Time `json:"since"` // when the state began
}

// IsLoading reports whether the first revision is being compiled or started.
func (s *Status) IsLoading() bool { return s.State == Loading }

func loadingStatus(name string) Status {
	return Status{Name: name, State: Loading, Controllers: []string{}, Since: time.Now()}
}

// statusAfter returns the status after an attempt to run a module.
func (s *supervisor[G]) statusAfter(m *Module, err error) Status {
	out := Status{
		Name: s.name, State: Failed, Controllers: []string{}, Since: time.Now(),
		Good: s.lastGood(), Loads: s.loads, Rollbacks: s.rollbacks,
	}
	running := s.running()
	if running != nil {
		out.State = Running
		out.Digest, out.Version, out.Revision = running.Digest, running.Version, running.Number
		for _, c := range running.Manifest.Controllers {
			out.Controllers = append(out.Controllers, c.Name)
		}
	}
	if err == nil {
		return out
	}
	out.LastError, out.FailedStep, out.Rejected = err.Error(), stepOf(err), m.Digest
	var wait *WaitError
	switch {
	case running != nil:
		out.State = Degraded
	case errors.As(err, &wait):
		out.State = Waiting
	}
	return out
}

// setDraining shows that the last runs of the plugin are ending.
func (s *supervisor[G]) setDraining() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.status.State, s.status.Since = Draining, time.Now()
}

// report sets the status after an attempt to run a module, and reports an event
// if the result is not that of the last attempt.
func (s *supervisor[G]) report(m *Module, err error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	before := s.status
	s.status = s.statusAfter(m, err)
	// A module that does not run stays the same whatever runs in its place.
	same := before.State == s.status.State && before.LastError == s.status.LastError && (err != nil || before.Revision == s.status.Revision)
	if same {
		s.status.Since = before.Since
	}
	if same && s.reported == m.Digest {
		return
	}
	s.reported = m.Digest
	switch {
	case err != nil:
		s.c.Events.Observe(s.failureEvent(m, err))
	case before.Revision == s.status.Revision: // else the runner has reported its start
		s.c.Events.Observe(events.PluginRestored{Revision: s.current.Revision})
	}
}

func (s *supervisor[G]) failureEvent(m *Module, err error) events.Event {
	if _, waits := errors.AsType[*WaitError](err); waits {
		return events.PluginWaiting{Plugin: s.name, Digest: m.Digest, Reason: err.Error(), Running: s.running().identity()}
	}
	rejected, _ := errors.AsType[*rejection](err)
	return events.PluginRefused{
		Plugin: s.name, Digest: m.Digest, Step: stepOf(err), Err: err, Printed: printedBy(err), Running: s.running().identity(), RolledBack: rejected != nil && rejected.told,
	}
}
