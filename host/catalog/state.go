package catalog

// State is the state of a plugin: in /plugins, in metrics, in texts for people. [Status] is what the catalog knows of
// a plugin beside it, and host/runner has what it knows of one that runs.
type State string

// The states of a plugin.
const (
	Loading     State = "loading"     // its first revision is being compiled or started
	Waiting     State = "waiting"     // for something that is not there yet, such as a CRD, or an entry in its policy
	Running     State = "running"     // the newest module runs
	Degraded    State = "degraded"    // a revision runs, but not that of the newest module
	Quarantined State = "quarantined" // it runs, and its circuit breaker is not closed
	Failed      State = "failed"      // no revision runs
	Standby     State = "standby"     // this replica of the host does not lead it, and keeps it ready
	Draining    State = "draining"    // its file is gone, its last runs are ending
)

// States are all of them.
func States() []State {
	return []State{Loading, Waiting, Running, Degraded, Quarantined, Failed, Standby, Draining}
}

// Runs reports whether a revision runs, or is being started again.
func (s State) Runs() bool {
	return s == Running || s == Degraded || s == Quarantined || s == Standby
}

// facts are what the state of a plugin follows from.
type facts struct {
	loading  bool // no attempt has ended
	draining bool
	runs     bool // a revision
	waits    bool // the newest module, and does not run
	failed   bool // the newest module does not run, for whatever reason

	Impairments
}

// Impairments are what keeps a plugin that runs from its work, as the runner knows it.
type Impairments struct {
	Tripped    bool // the circuit breaker of the running revision is not closed
	NotLeading bool // this replica does not lead the plugin, or its Lease is late
}

// state is the only place that says in which state a plugin is.
func (f facts) state() State {
	switch {
	case f.draining:
		return Draining
	case f.loading:
		return Loading
	case !f.runs && f.waits:
		return Waiting
	case !f.runs:
		return Failed
	case f.NotLeading:
		return Standby
	case f.Tripped:
		return Quarantined
	case f.failed:
		return Degraded
	}
	return Running
}
