package sdktest

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// Runner runs the plugin under test. Package wasmtest has one for compiled plugins.
type Runner interface {
	// Describe returns the text of the manifest.
	Describe() []byte
	// Reconcile runs the controller for the text of an [abi.Request] and returns
	// the text of an [abi.Result]. An error means that the guest did not return. A
	// method FailureClass() abi.Class of the error classifies it.
	Reconcile(request []byte, host Host) (abi.Code, []byte, error)
}

// Indexer is implemented by a [Runner] of plugins with indexes by keys.
type Indexer interface {
	// Index gives keys to the object of the text of an [abi/functionindexes.Request], and returns the
	// text of an [abi/functionindexes.Result].
	Index(request []byte) (abi.Code, []byte, error)
}

// Stepper is implemented by a [Runner] of plugins with daemons.
type Stepper interface {
	// Daemon makes a step for the text of a request of package abi/daemon, and returns the text of a
	// result of that. Its errors are those of Reconcile.
	Daemon(request []byte, host Host) (abi.Code, []byte, error)
}

// Reviewer is implemented by a [Runner] of plugins that validate, mutate and convert. Its errors are
// those of Reconcile.
type Reviewer interface {
	// Validate reviews the text of an [abi/webhooks.ReviewRequest], and returns the text of an
	// [abi/webhooks.ReviewResult].
	Validate(request []byte, host Host) (abi.Code, []byte, error)
	// Mutate is Validate for the export mutate.
	Mutate(request []byte, host Host) (abi.Code, []byte, error)
	// Convert converts the object of the text of an [abi/webhooks.ConvertRequest], and returns the text of
	// an [abi/webhooks.ConvertResult].
	Convert(request []byte) (abi.Code, []byte, error)
}

// Host has the capabilities that a run can call. Messages, replies and codes are those
// of package abi.
//
//	type Host interface {
//		// Get returns the object for the text of an abi.GetCall.
//		Get(call []byte) (reply []byte, code int64)
//		// List returns the text of an abi.ListReply for that of an abi.ListCall.
//		List(call []byte) (reply []byte, code int64)
//		// IndexGet returns the text of an functionindexes.Reply for that of an functionindexes.Call.
//		IndexGet(call []byte) (reply []byte, code int64)
//		// HTTP returns the encoded reply to an encoded call of the capability http.
//		HTTP(call []byte) (reply []byte, code int64)
//		// Log writes a line to the log.
//		Log(level int32, line []byte)
//	}
type Host = guest.Host

// native runs the controllers that are linked into the test.
type native struct{}

func (native) Describe() []byte { return abi.EncodeManifest(guest.Manifest()) }

func (native) Reconcile(request []byte, host Host) (abi.Code, []byte, error) {
	code, result := guest.Reconcile(host, request)
	return code, result, nil
}

func (native) Index(request []byte) (abi.Code, []byte, error) {
	code, result := guest.GiveKeys(request)
	return code, result, nil
}

func (native) Daemon(request []byte, host Host) (abi.Code, []byte, error) {
	code, result := guest.Step(host, request)
	return code, result, nil
}

func (native) Validate(request []byte, host Host) (abi.Code, []byte, error) {
	code, result := guest.Validate(host, request)
	return code, result, nil
}

func (native) Mutate(request []byte, host Host) (abi.Code, []byte, error) {
	code, result := guest.Mutate(host, request)
	return code, result, nil
}

func (native) Convert(request []byte) (abi.Code, []byte, error) {
	code, result := guest.Convert(request)
	return code, result, nil
}

// Run is one run of the controller for one object, and its effects.
type Run struct {
	Code   abi.Code
	Result *abi.Result // nil if the guest did not return one
	// Class, Reason and Message describe the failure of the run: what the guest
	// returned, why it did not return, or the effect that failed.
	Class   abi.Class
	Reason  string
	Message string
	// Writes are the effects that changed something, in order, such as
	// "finalizer", "patch", "apply v1 Pod default/web",
	// "delete v1 Pod default/web", "status", "handled" (the annotation of the handled
	// state, unless it is part of the patch), "release" (of the finalizer).
	Writes []string
	Logs   []Line

	Timers    []string      // the names of the timers that were due
	NextTimer time.Duration // from the end of the run until the next timer is due; 0: none is

	// LastStep is that of the daemon of the object, which was stopped before the run; nil: none
	// was.
	LastStep *Step

	tb          testing.TB
	world       *World
	primary     *object // in the state that the guest was given
	gone        bool    // the primary does not exist any more, or is not followed
	tries       outcome.Tries
	fault       *outcome.Fault
	effect      *abi.EffectFailure
	groups      []outcome.GroupFailure // of intents that failed
	unavailable bool                   // a read returned abi.CodeUnavailable
	pages       map[string]page        // by continue
	serial      int                    // of the request
	decision    outcome.Decision
}

// Line is a line that a run logged.
type Line struct {
	Level  int32 // abi.LogDebug to abi.LogError
	Text   string
	Fields map[string]string // strings as they are, other values as JSON
}

// Reconcile runs the controller once for the object with that name:
// "namespace/name", or "name" for a cluster-scoped kind.
func (w *World) Reconcile(name string) *Run {
	w.tb.Helper()
	w.labelChildren()
	o := w.mustExist("reconcile", w.primaryRef(name))
	if o.meta.Deleting() && !w.holds(o) && !w.controller.WhileDeleting {
		w.tb.Fatalf("reconcile %s: it is being deleted and does not have the finalizer %s: the host does not run it", o.id, w.finalizer())
	}
	if o = o.in(w.scopes[:1]); o == nil {
		w.tb.Fatalf("reconcile %s: it does not match what the controller follows of the kind: the host does not run it", name)
	}
	return w.reconcile(o, false)
}

func (w *World) reconcile(o *object, gone bool) *Run {
	w.tb.Helper()
	last := w.stopDaemon(o.id)
	k := w.key(o)
	k.gone = gone
	o = w.withoutHandled(o)
	r := &Run{tb: w.tb, world: w, primary: o, gone: gone, tries: k.tries, LastStep: last}
	r.Timers = w.beginTimers(o, k)
	r.decode(w.runner.Reconcile(w.request(r, k), asHost{r}))
	r.perform()
	r.keepState(k)
	return r
}

// maxRuns is the number of runs in which [World.Settle] expects an object to come
// to rest.
const maxRuns = 20

// Settle reconciles until a run changes nothing, or until the object is gone or no longer
// followed, and returns that run. It fails the test after 20 runs: two writers then undo each
// other's changes.
func (w *World) Settle(name string) *Run {
	w.tb.Helper()
	var r *Run
	for range maxRuns {
		r = w.Reconcile(name)
		o := w.objects[idOf(w.primaryRef(name))]
		if len(r.Writes) == 0 || o == nil || o.in(w.scopes[:1]) == nil {
			return r
		}
	}
	w.tb.Fatalf("settle %s: still writes after %d runs: %q", name, maxRuns, r.Writes)
	return r
}

// primaryRef returns the reference to the primary with that name; see [World.Reconcile].
func (w *World) primaryRef(name string) sdk.Ref {
	namespace, local, ok := strings.Cut(name, "/")
	if !ok {
		namespace, local = "", name
	}
	return w.controller.For.Ref(namespace, local)
}

// holds reports whether an object has the finalizer of the controller.
func (w *World) holds(o *object) bool { return slices.Contains(o.meta.Finalizers, w.finalizer()) }

// unheldWhileDeleting reports whether the object is being deleted, and only others hold it.
func (r *Run) unheldWhileDeleting() bool {
	return r.world.controller.WhileDeleting && r.primary.meta.Deleting() && !r.gone && !r.world.holds(r.primary)
}

func (w *World) finalizer() string { return w.plugin + ".thole.dev/" + w.controller.Name }

// key returns the state of a primary. One that was deleted and created again has a new one.
func (w *World) key(o *object) *key {
	k := w.keys[o.meta.UID]
	if k == nil {
		k = &key{}
		w.keys[o.meta.UID] = k
	}
	return k
}

// request returns the request that a host would send. The seed differs from run to run and is
// the same in each execution of the test.
func (w *World) request(r *Run, k *key) []byte {
	w.serial++
	r.serial = w.serial
	o := r.primary
	q := &abi.Request{
		Controller: w.controller.Name, Object: o.raw, Deleting: k.held || o.meta.Deleting() && !k.gone, Gone: k.gone,
		Reasons: r.reasons(k), Sections: append(r.sections(), w.change(o, k)...), Signals: k.signals, Attempt: k.tries.Attempt, Previous: k.previous,
		Memo: k.memo, Now: w.now, Config: w.config,
	}
	binary.LittleEndian.PutUint64(q.Seed[:], uint64(w.serial))
	return abi.EncodeRequest(q)
}

// decode sets the result of the run, or the fault if there is none.
func (r *Run) decode(code abi.Code, text []byte, err error) {
	if err != nil {
		r.fault = &outcome.Fault{Class: classOf(err), Message: err.Error()}
		return
	}
	result, err := abi.DecodeResultFor(r.world.controller.StatusOwner, r.world.intents, r.sectionCheck, text)
	if err != nil {
		r.fault = &outcome.Fault{Class: abi.ClassABI, Message: "result: " + err.Error()}
		return
	}
	r.Code, r.Result = code, result
	if violation := r.checkGone(); violation != "" {
		r.fault = &outcome.Fault{Class: abi.ClassABI, Message: violation}
	}
}

// classOf returns the class of an error of a [Runner].
func classOf(err error) abi.Class {
	var classified interface{ FailureClass() abi.Class }
	if errors.As(err, &classified) {
		return classified.FailureClass()
	}
	return abi.ClassPanic
}

// keepState stores the state that the host keeps for the next run.
func (r *Run) keepState(k *key) {
	k.tries = r.decision.Tries
	if r.decision.KeepMemo {
		k.memo = r.Result.Memo
	}
	r.keepChanges(k)
	r.endTimers(k)
	k.signalled = false
	if r.endedWell() {
		k.signals = nil
	}
	k.previous = nil
	if r.Class == abi.ClassNone {
		return
	}
	k.previous = &abi.Previous{Class: r.Class, Failures: r.failures()}
}

// Log appends a line to the logs of the run.
func (r asHost) Log(level int32, line []byte) {
	l := Line{Level: level, Fields: map[string]string{}}
	members, err := rawjson.Members(line)
	if err != nil {
		l.Text = string(line)
	}
	for _, m := range members {
		value := string(m.Value)
		if v := rawjson.NewReader(m.Value); v.Kind() == '"' {
			value = v.String()
		}
		if m.Name == "message" {
			l.Text = value
		} else {
			l.Fields[m.Name] = value
		}
	}
	r.Logs = append(r.Logs, l)
}
