package sdktest

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/sdk"
)

// Run is one run of the controller for one object, and what became of it.
type Run struct {
	Code   abi.Code
	Result *abi.Result // nil if the guest did not return one
	// Class, Reason and Message are why the run failed, be it by what the
	// guest returned, by its not returning, or by an effect.
	Class   abi.Class
	Reason  string
	Message string
	// Writes are the effects that changed something, in order, such as
	// "finalizer", "patch", "apply v1 Pod default/web",
	// "delete v1 Pod default/web", "status", "release" (of the finalizer).
	Writes []string
	Logs   []Line

	tb       testing.TB
	world    *World
	primary  *object // as the guest was given it
	tries    outcome.Tries
	fault    *outcome.Fault
	effect   *abi.EffectFailure
	unread   bool // a read was not available
	decision outcome.Decision
}

// Line is what a run logged.
type Line struct {
	Level  int32 // abi.LogDebug to abi.LogError
	Text   string
	Fields map[string]string // strings bare, anything else as JSON
}

// Reconcile runs the controller once for its object of that name,
// "namespace/name" or, of a cluster-scoped kind, "name".
func (w *World) Reconcile(name string) *Run {
	w.tb.Helper()
	o := w.must("reconcile", w.primary(name))
	if o.meta.Deleting() && !slices.Contains(o.meta.Finalizers, w.finalizer()) {
		w.tb.Fatalf("reconcile %s: it is being deleted and not held by %s: the host leaves it alone", o.id, w.finalizer())
	}
	k := w.key(o)
	r := &Run{tb: w.tb, world: w, primary: o, tries: k.tries}
	r.take(w.runner.Reconcile(w.request(o, k), asHost{r}))
	r.perform()
	r.remember(k)
	return r
}

// mostRuns is how often an object may need to be reconciled until it rests.
const mostRuns = 20

// Settle reconciles until a run changes nothing, and returns the first such
// run; also when the object is gone. It fails the test if that takes more than
// 20 runs: two things then fight each other.
func (w *World) Settle(name string) *Run {
	w.tb.Helper()
	var r *Run
	for range mostRuns {
		r = w.Reconcile(name)
		if len(r.Writes) == 0 || !w.Exists(w.primary(name)) {
			return r
		}
	}
	w.tb.Fatalf("settle %s: still writes after %d runs: %q", name, mostRuns, r.Writes)
	return r
}

func (w *World) primary(name string) sdk.Ref {
	kind := sdk.Kind(w.controller.For)
	namespace, local, ok := strings.Cut(name, "/")
	if !ok {
		return kind.Ref("", name)
	}
	return kind.Ref(namespace, local)
}

func (w *World) finalizer() string { return w.plugin + ".thole.dev/" + w.controller.Name }

func (w *World) key(o *object) *key {
	k := w.keys[o.meta.UID]
	if k == nil {
		k = &key{}
		w.keys[o.meta.UID] = k
	}
	return k
}

func (w *World) request(o *object, k *key) []byte {
	w.serial++
	q := &abi.Request{
		Controller: w.controller.Name, Object: o.raw, Deleting: o.meta.Deleting(),
		Reasons: []abi.Reason{abi.ReasonPrimary}, Attempt: k.tries.Attempt, Previous: k.previous,
		Memo: k.memo, Now: w.now, Config: w.config,
	}
	binary.LittleEndian.PutUint64(q.Seed[:], uint64(w.serial))
	return abi.EncodeRequest(q)
}

// Log takes a line of the run.
func (r asHost) Log(level int32, line []byte) {
	l := Line{Level: level, Fields: map[string]string{}}
	members, err := rawjson.Members(line)
	if err != nil {
		l.Text = string(line)
	}
	for _, m := range members {
		if value := scalar(m.Value); m.Name == "message" {
			l.Text = value
		} else {
			l.Fields[m.Name] = value
		}
	}
	r.Logs = append(r.Logs, l)
}

func scalar(value []byte) string {
	if r := rawjson.NewReader(value); r.Kind() == '"' {
		return r.String()
	}
	return string(value)
}

// take takes over what the guest returned, or why it did not.
func (r *Run) take(code abi.Code, text []byte, err error) {
	if err != nil {
		r.fault = &outcome.Fault{Class: classOf(err), Message: err.Error()}
		return
	}
	result, err := abi.DecodeResult(text)
	if err != nil {
		r.fault = &outcome.Fault{Class: abi.ClassABI, Message: "result: " + err.Error()}
		return
	}
	r.Code, r.Result = code, result
}

// classOf classifies an error of a [Runner].
func classOf(err error) abi.Class {
	var classified interface{ FailureClass() abi.Class }
	if errors.As(err, &classified) {
		return classified.FailureClass()
	}
	return abi.ClassPanic
}

// remember is what the host knows in the next run.
func (r *Run) remember(k *key) {
	k.tries = r.decision.Tries
	if r.decision.KeepMemo {
		k.memo = r.Result.Memo
	}
	k.previous = nil
	if r.Class == abi.ClassNone {
		return
	}
	k.previous = &abi.Previous{Class: r.Class}
	if r.effect != nil {
		k.previous.Failures = []abi.EffectFailure{*r.effect}
	}
}
