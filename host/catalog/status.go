package catalog

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/host/events"
)

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

// statusOf returns what the catalog knows of a plugin: all but the state, which follows from the facts, too.
func (s *supervisor[G]) statusOf(m *Module, err error) (Status, facts) {
	out := Status{
		Name: s.name, Controllers: []string{}, Since: time.Now(),
		Good: s.lastGood(), Loads: s.loads, Rollbacks: s.rollbacks,
	}
	running := s.running()
	if running != nil {
		out.Digest, out.Version, out.Revision = running.Digest, running.Version, running.Number
		for _, c := range running.Manifest.Controllers {
			out.Controllers = append(out.Controllers, c.Name)
		}
	}
	_, waits := errors.AsType[*WaitError](err)
	if err != nil {
		out.LastError, out.FailedStep, out.Rejected = err.Error(), stepOf(err), m.Digest
	}
	return out, facts{runs: running != nil, failed: err != nil, waits: waits}
}

// begin sets the status of a plugin that is new.
func (s *supervisor[G]) begin() {
	s.status, s.facts, s.reported = Status{Name: s.name, Controllers: []string{}, Since: time.Now()}, facts{loading: true}, ""
}

// setDraining shows that the last runs of the plugin are ending.
func (s *supervisor[G]) setDraining() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.facts.draining, s.status.Since = true, time.Now()
}

// report sets the status after an attempt to run a module, and reports an event
// if the result is not that of the last attempt.
func (s *supervisor[G]) report(m *Module, err error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	before, known := s.status, s.facts
	s.status, s.facts = s.statusOf(m, err)
	// A module that does not run stays the same whatever runs in its place.
	same := known == s.facts && before.LastError == s.status.LastError && (err != nil || before.Revision == s.status.Revision)
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
