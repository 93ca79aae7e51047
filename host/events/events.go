// Package events defines what happens to plugins and to their runs as typed
// events. The stages report them to an [Observer]; the log, the metrics,
// `thole dev` and capabilities are observers.
//
// The package is a leaf: it imports nothing of the host.
package events

import (
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
)

// Observer receives events. Observe is called from many goroutines at once, with
// locks held: it must not block, and must not call back into the host.
type Observer interface {
	Observe(Event)
}

// Event is one of the types of this package.
type Event interface{ event() }

// Observers returns an observer that passes every event to each observer, in order. Nil observers are
// left out.
func Observers(all ...Observer) *List {
	l := &List{}
	for _, o := range all {
		if o != nil {
			l.Add(o)
		}
	}
	return l
}

// List is an [Observer] that passes every event to others, in order.
type List struct{ all []Observer }

// Add adds an observer. It must not be called any more when events may be observed.
func (l *List) Add(o Observer) { l.all = append(l.all, o) }

// Observe implements [Observer].
func (l *List) Observe(e Event) {
	for _, o := range l.all {
		o.Observe(e)
	}
}

// Func is an [Observer] that is a function.
type Func func(Event)

// Observe implements [Observer].
func (f Func) Observe(e Event) { f(e) }

// IsLogField reports whether a field of the log is the host's own: what line it is, and about what.
// In lines of plugins and libraries such a name has a prefix.
func IsLogField(name string) bool {
	switch name {
	case "event", "plugin", "controller", "object", "revision", "reconcileID":
		return true
	}
	return strings.HasPrefix(name, "@") // of the logger
}

// Revision identifies a plugin at one digest and under one policy.
type Revision struct {
	Plugin  string
	Number  int    // counts the revisions of the plugin since the host started, from 1
	Version string // as the manifest states it; may be empty
	Digest  string // SHA-256 of the module, in hex
}

// Events of the host itself.
type (
	// HostStarted reports that the host serves its address and runs plugins.
	HostStarted struct {
		Version string // of the host
		Plugins string // the plugin directory
		Address string // of probes, metrics and plugin states
	}
	// HostStopped reports that no plugin is running any more.
	HostStopped struct {
		Err error // nil after an orderly end
	}
)

// Events of a plugin.
type (
	// PluginStarted reports that a revision begins to run, in place of the one
	// before it if there was one. No run of the revision is reported earlier.
	PluginStarted struct {
		Revision
		Manifest *abi.Manifest // must not be changed
	}
	// PluginRestored reports that the file of a plugin, after one that was
	// refused or had to wait, is again the one of the running revision.
	PluginRestored struct {
		Revision
	}
	// PluginWaiting reports that a module cannot start yet, for instance because
	// its CRD is not installed. It is tried again.
	PluginWaiting struct {
		Plugin  string
		Digest  string
		Reason  string
		Running *Revision // keeps running meanwhile; nil: none
	}
	// PluginRefused reports that a module or its policy cannot be used.
	PluginRefused struct {
		Plugin  string
		Digest  string
		Step    string // of loading, at which it failed; from a bounded set
		Err     error
		Running *Revision // keeps running; nil: none
		// Printed is what guest code printed as it failed: for the log alone, since it
		// may hold anything.
		Printed string
		// RolledBack is set for a module that ran here and was rolled back, which a
		// PluginRolledBack has reported in detail.
		RolledBack bool
	}
	// PluginRolledBack reports that a revision failed more than the one before
	// it, which runs again. It follows the PluginStarted of To.
	PluginRolledBack struct {
		From, To Revision
		// Reason is in the words of the host alone: it holds nothing that the
		// plugin has read.
		Reason string
	}
	// PluginStopped reports that nothing of the plugin is running any more.
	PluginStopped struct {
		Plugin  string
		Removed bool // its file is gone; else the host is stopping
		Ran     bool // a revision has run until then
	}
	// PluginQuarantined reports that the circuit breaker of a plugin has opened:
	// objects that fail wait while single runs probe whether it works again.
	PluginQuarantined struct {
		Revision
		Reason    string // in the words of the host alone
		NextProbe time.Time
		// Controller, Object and Failure are of the latest run that failed. Object
		// is namespace/name.
		Controller, Object string
		Failure            Failure
	}
	// PluginRecovered reports that the circuit breaker has closed.
	PluginRecovered struct {
		Revision
	}
	// RightsMissing reports that a plugin with a service account lacks other rights than
	// before. It keeps running.
	RightsMissing struct {
		Plugin  string
		Missing []string // for each rule, who lacks it and what to add
	}
	// RightsGranted reports that the plugin has all rights that it needs again.
	RightsGranted struct {
		Plugin string
	}
	// FinalizersLeft reports finalizers that no controller of the plugin removes
	// any more. They keep their objects from being deleted.
	FinalizersLeft struct {
		Plugin  string
		Removed bool // the plugin is gone; else some of its controllers are
		Left    []LeftFinalizer
		// Commands remove all of Left and nothing else: shell commands for
		// people.
		Commands []string
	}
	// NoPlugins reports that there is no plugin in the directory, at the start of the host or after
	// the last one was removed.
	NoPlugins struct {
		Path string // of the directory
	}
	// LogLevelSet reports that lines of the plugin and about its runs are logged from another
	// level on.
	LogLevelSet struct {
		Plugin string
		Level  string // of the policy; "" for the level of the host
	}
	// Notice reports something that a capability has to report about a plugin. It states itself how it is
	// shown.
	Notice struct {
		Plugin  string
		Name    string // the field event of its line in the log
		Warning bool   // else it is information
		Line    string // the message of its line
		Fields  []any  // of its line beside event and plugin: names and values in turn
		Reason  string // of the Kubernetes Event on the pod of the host; "": there is none
		Summary string // the message of that, after the name of the plugin
		Details string // its end, which is cut if the message is too long
	}
)

// LeftFinalizer is a finalizer that is left on the objects of one kind.
type LeftFinalizer struct {
	Finalizer string
	Kind      abi.Kind
	KindName  string // as kubectl and `thole finalizers` take it
	Objects   int
	Deleting  int      // of Objects, those that wait for the finalizer to be removed
	Examples  []string // namespace/name of the first few
	Command   string   // removes this finalizer from these objects
}

// Run identifies one run of a controller for one object.
type Run struct {
	Plugin     string
	Controller string
	Object     string // namespace/name, or name
	Revision   int    // the number of the revision
	ID         string // distinct for each run; the log has it as reconcileID
}

// Failure is why a run failed.
type Failure struct {
	Class   abi.Class // empty: it did not
	Reason  string    // CamelCase, as in a condition
	Message string
	Stack   []string // functions of the guest, innermost first; bounded
	// Printed and PrintedStack are what the guest printed as it failed: for the log
	// alone, since they may hold anything that it has read. Both are bounded.
	Printed      string
	PrintedStack []string
}

// Events of a run.
type (
	// RunEnded reports that a run has ended and its effects were performed.
	RunEnded struct {
		Run
		Result      string // the label "result" of controller_runtime_reconcile_total
		Failure     Failure
		Since       time.Time // when a worker began with it, or took it up again: see RunPostponed
		Duration    time.Duration
		Resumed     bool         // it was postponed before
		Reasons     []abi.Reason // why it ran, best effort; must not be changed
		Writes      int          // to the API server
		Attempt     int          // failed runs in a row, this one included
		Fuel        int64        // instructions
		MemoryBytes uint64
		// Next is when the object runs again without a trigger; 0: never.
		Next time.Duration
		// Repeated is set for a failure that is a race with somebody else, who has changed or deleted
		// what the run wrote to, or a read that came too early. The run counts for nothing.
		Repeated bool
		// Muted is set for a wait or failure beyond what the plugin may cause to
		// be logged: it is not logged.
		Muted bool
	}
	// RunPostponed reports that the effects of a run wait, because the API server or the limit of writes of the
	// plugin asks for time. If the object is due for something else meanwhile the run has no other end.
	RunPostponed struct {
		Run
		Since    time.Time // as in RunEnded
		Duration time.Duration
		Resumed  bool          // it was postponed before
		For      time.Duration // the wait
	}
	// RequestEnded reports that a request to another system has ended, which a capability has sent for a call of the
	// guest, with all that it was redirected to. It is not logged: the capability has a line that has more.
	RequestEnded struct {
		Run       // that the guest was called for
		Since     time.Time
		Duration  time.Duration
		Method    string // "" if the request was not valid
		Host      string // with the port; bounded
		Status    int    // 0: there was no answer
		Redirects int
		Code      string // the status, or why there was no answer
	}
	// TurnEnded reports that a call beside the runs of objects has ended. Of one for no object, Object is its key
	// in the queue (the name of a capability, a slash, and a name), and the objects are due that it has found. The
	// capability states under which name it is logged: that of an object is not.
	TurnEnded struct {
		Run
		What, Event string // such as "scan" and "ScanEnded"; Event is "" for one that is not logged
		Failure     Failure
		Since       time.Time
		Duration    time.Duration
		Objects     int   // that are due for it
		Ignored     int   // that it has named, and the controller does not follow
		Fuel        int64 // instructions
		MemoryBytes uint64
		Muted       bool // as in RunEnded
	}
	// GuestLogged is a line that a plugin logged during a run. Lines beyond its
	// allowance are not reported. Message and field names are one line of
	// printable text, values are as the guest wrote them.
	GuestLogged struct {
		Run
		Level   int32 // abi.LogDebug to abi.LogError
		Message string
		Fields  []any // names and values in turn
	}
)

func (HostStarted) event()       {}
func (HostStopped) event()       {}
func (PluginStarted) event()     {}
func (PluginRestored) event()    {}
func (PluginWaiting) event()     {}
func (PluginRefused) event()     {}
func (PluginRolledBack) event()  {}
func (PluginStopped) event()     {}
func (PluginQuarantined) event() {}
func (PluginRecovered) event()   {}
func (RightsMissing) event()     {}
func (RightsGranted) event()     {}
func (FinalizersLeft) event()    {}
func (NoPlugins) event()         {}
func (LogLevelSet) event()       {}
func (Notice) event()            {}
func (RunEnded) event()          {}
func (RunPostponed) event()      {}
func (RequestEnded) event()      {}
func (TurnEnded) event()         {}
func (GuestLogged) event()       {}
