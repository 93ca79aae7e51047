package sdktest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/sdk"
)

// This file has the daemons of objects: abi/daemon/SPEC.md.

// Step is one step of the daemon of an object.
type Step struct {
	// Events are why the step was made. If there are none, no step was due, and nothing else is
	// set.
	Events []sdk.DaemonEvent
	Code   abi.Code
	Result *contract.Result // nil if the guest did not return one
	// Class, Reason and Message describe the failure of the step, as those of a [Run].
	Class   abi.Class
	Reason  string
	Message string
	Logs    []Line
	// Next is the time until the next step, if nothing that the daemon waits for comes before;
	// 0: it waits for no time.
	Next time.Duration

	tb testing.TB
}

// daemon is that of one object, from its first step to its last.
type daemon struct {
	uid     string
	failure *abi.EffectFailure // why it does not run; nil if it does, or has ended
	ended   bool               // by itself
	state   []byte
	wait    contract.Wait
	due     time.Time // by wait.After; zero: never
	input   string    // of the object that the last step was given
	reads   []stepRead
	serial  int // of the last step
}

func (d *daemon) running() bool { return d.failure == nil && !d.ended }

// stepRead is a read of a step.
type stepRead struct {
	call    func(asHost, []byte) ([]byte, int64)
	event   contract.Event // if it is answered differently
	message []byte
	reply   []byte
	code    int64
}

// Step makes one step of the daemon of the object with that name, if one is due: the first one of
// an object that has the finalizer and matches the daemon's selector, the last one of an object
// that is being deleted, gone or matches no longer, and any other when something has come that the
// daemon waits for. A failed daemon is started again at once; a host waits for the end of its backoff.
// See [World.Reconcile] for the name.
//
// What the step signals is in the requests of the next runs, until one has ended well.
func (w *World) Step(name string) *Step {
	w.tb.Helper()
	if w.daemon() == nil {
		w.tb.Fatalf("step %s: the controller has no daemon", name)
	}
	w.labelChildren()
	at := idOf(w.primaryRef(name))
	if last := w.stopDaemon(at); last != nil {
		return last
	}
	o := w.primaryAt(at)
	if o == nil || !w.wantsDaemon(o) || w.daemons[at] == nil && !slices.Contains(o.meta.Finalizers, w.finalizer()) {
		return &Step{tb: w.tb}
	}
	return w.stepDaemon(o)
}

// daemon returns what the controller asks for, nil if it asks for no daemons.
func (w *World) daemon() *contract.Daemon {
	section := w.controller.Section(contract.Name)
	if section == nil {
		return nil
	}
	d, err := contract.Decode(section)
	if err != nil {
		w.tb.Fatalf("controller %s: %s: %v", w.controller.Name, contract.Name, err)
	}
	return d
}

// primaryAt returns what the controller follows of an object, nil if it does not exist or is not
// followed.
func (w *World) primaryAt(at id) *object {
	if o := w.objects[at]; o != nil {
		return o.in(w.scopes[:1])
	}
	return nil
}

// wantsDaemon reports whether a primary is to have a daemon.
func (w *World) wantsDaemon(o *object) bool {
	d := w.daemon()
	if d == nil || o.meta.Deleting() {
		return false
	}
	labels, _ := parseSelector(d.LabelSelector) // [NewWith] has checked it
	return labels.matches(o.meta.Labels)
}

// stepDaemon makes a step of a daemon, if one is due.
func (w *World) stepDaemon(o *object) *Step {
	w.tb.Helper()
	d := w.daemons[o.id]
	given := w.withoutHandled(o)
	events := []contract.Event{contract.Start}
	switch {
	case d == nil || d.failure != nil:
		d = &daemon{uid: o.meta.UID}
	case d.ended:
		return &Step{tb: w.tb}
	default:
		events = w.eventsOf(d, given)
	}
	if len(events) == 0 {
		return &Step{tb: w.tb}
	}
	s, host := w.step(d, given, events)
	if host.unavailable { // it is made again
		s.Class, s.Reason, s.Message = abi.ClassRetry, "Unavailable", "a read was not available yet"
		return s
	}
	w.daemons[o.id] = d
	if s.Class != abi.ClassNone {
		*d = daemon{uid: d.uid, failure: newFailure(contract.Verb, o.id, s.Class, s.Reason, s.Message)}
		return s
	}
	d.state, d.wait, d.ended, d.due = s.Result.State, s.Result.Wait, s.Result.End, time.Time{}
	d.input, d.reads, d.serial = inputOf(o), host.reads, host.serial
	if d.wait.After > 0 && !d.ended {
		s.Next = max(time.Duration(d.wait.After)*time.Millisecond, shortestWait)
		d.due = w.now.Add(s.Next)
	}
	w.key(o).addSignals(s.Result.Signals)
	return s
}

// shortestWait is that of a daemon which asks for less.
const shortestWait = 100 * time.Millisecond

// stopDaemon makes the last step of the daemon of an object if it has one that is to be stopped. It
// returns nil if it makes none.
func (w *World) stopDaemon(at id) *Step {
	w.tb.Helper()
	d, o := w.daemons[at], w.primaryAt(at)
	if o != nil && d != nil && o.meta.UID != d.uid {
		o = nil
	}
	if d == nil || o != nil && w.wantsDaemon(o) {
		return nil
	}
	delete(w.daemons, at)
	if !d.running() {
		return nil
	}
	given := &object{id: at, raw: w.encode(map[string]any{
		"apiVersion": at.kind.APIVersion, "kind": at.kind.Kind,
		"metadata": sdk.ObjectMeta{Namespace: at.namespace, Name: at.name},
	})}
	if o != nil {
		given = w.withoutHandled(o)
	}
	s, _ := w.step(d, given, []contract.Event{contract.Stop})
	if o != nil && s.Class == abi.ClassNone {
		w.key(o).addSignals(s.Result.Signals)
	}
	return s
}

// eventsOf returns why a step of a daemon that runs is due, nothing if none is.
func (w *World) eventsOf(d *daemon, o *object) (events []contract.Event) {
	w.tb.Helper()
	if d.wait.Object && d.input != inputOf(o) {
		events = append(events, contract.Object)
	}
	if d.wait.Reads {
		events = append(events, w.changedReads(d, o)...)
	}
	if !d.due.IsZero() && !d.due.After(w.now) {
		events = append(events, contract.Time)
	}
	return events
}

// inputOf returns what wakes a daemon that waits for a change of its object.
func inputOf(o *object) string {
	annotations := maps.Clone(o.meta.Annotations)
	maps.DeleteFunc(annotations, func(name, _ string) bool { return abi.StateAnnotation(name) })
	return fmt.Sprintf("%d %q %q", o.meta.Generation, o.meta.Labels, annotations)
}

// changedReads repeats the reads of the last step and returns the events for those that are
// answered differently now. A read that is not available is no change.
func (w *World) changedReads(d *daemon, o *object) (events []contract.Event) {
	w.tb.Helper()
	again := asHost{&Run{tb: w.tb, world: w, primary: o, serial: d.serial}}
	changed := map[contract.Event]bool{}
	for _, r := range d.reads {
		reply, code := r.call(again, r.message)
		if code != abi.CodeUnavailable && (code != r.code || !bytes.Equal(reply, r.reply)) {
			changed[r.event] = true
		}
	}
	for _, e := range []contract.Event{contract.Read, contract.Index} {
		if changed[e] {
			events = append(events, e)
		}
	}
	return events
}

// stepHost is the [Host] of a step. It keeps the reads.
type stepHost struct {
	asHost
	last  bool // nothing can be read
	reads []stepRead
}

// Get is that of a run.
func (h *stepHost) Get(message []byte) ([]byte, int64) {
	return h.read(asHost.Get, contract.Read, message)
}

// List is that of a run.
func (h *stepHost) List(message []byte) ([]byte, int64) {
	return h.read(asHost.List, contract.Read, message)
}

// IndexGet is that of a run.
func (h *stepHost) IndexGet(message []byte) ([]byte, int64) {
	return h.read(asHost.IndexGet, contract.Index, message)
}

// HTTP is that of a run. It wakes no daemon.
func (h *stepHost) HTTP(message []byte) ([]byte, int64) {
	if h.last {
		return nil, abi.CodeDenied
	}
	return h.asHost.HTTP(message)
}

func (h *stepHost) read(call func(asHost, []byte) ([]byte, int64), event contract.Event, message []byte) ([]byte, int64) {
	if h.last {
		return nil, abi.CodeDenied
	}
	message = bytes.Clone(message)
	reply, code := call(h.asHost, message)
	h.reads = append(h.reads, stepRead{call, event, message, bytes.Clone(reply), code})
	return reply, code
}

// step makes a step of a daemon for an object.
func (w *World) step(d *daemon, o *object, events []contract.Event) (*Step, *stepHost) {
	w.tb.Helper()
	stepper, ok := w.runner.(Stepper)
	if !ok {
		w.tb.Fatalf("step: the runner of the test is no sdktest.Stepper")
	}
	w.serial++
	q := &contract.Request{
		Controller: w.controller.Name, Object: o.raw, Events: events, State: d.state, Now: w.now, Config: w.config,
	}
	binary.LittleEndian.PutUint64(q.Seed[:], uint64(w.serial))
	h := &stepHost{
		asHost: asHost{&Run{tb: w.tb, world: w, primary: o, serial: w.serial}},
		last:   slices.Contains(events, contract.Stop),
	}
	s := &Step{Events: events, tb: w.tb}
	s.decode(stepper.Daemon(contract.EncodeRequest(q), h))
	s.Logs = h.Logs
	return s, h
}

// decode sets the result of the step, or its failure.
func (s *Step) decode(code abi.Code, text []byte, err error) {
	if err != nil {
		s.Class, s.Message = classOf(err), err.Error()
		return
	}
	result, err := contract.DecodeResult(text)
	if err != nil {
		s.Class, s.Reason, s.Message = abi.ClassABI, "InvalidResult", err.Error()
		return
	}
	s.Code, s.Result = code, result
	if code == abi.CodeOK {
		return
	}
	s.Class = cmp.Or(outcome.ClassOf(code), abi.ClassRetry)
	if result.Error != nil {
		s.Reason, s.Message = result.Error.Reason, result.Error.Message
	}
}

// maxSignals bounds the signals that wait for a run: beyond it the oldest are lost.
const maxSignals = 4 * abi.MaxSignals

// addSignals keeps signals until a run that was given them has ended well.
func (k *key) addSignals(given [][]byte) {
	k.signalled = k.signalled || len(given) > 0
	k.signals = append(k.signals, given...)
	k.signals = k.signals[max(len(k.signals)-maxSignals, 0):]
}

// failDaemon makes a run that would succeed fail because the daemon of the object has, as a host
// does.
func (r *Run) failDaemon() {
	if d := r.world.daemons[r.primary.id]; r.Class == abi.ClassNone && !r.gone && d != nil && d.failure != nil {
		r.effect = d.failure
		r.decide()
	}
}

// ExpectEvents expects that the step was made because of exactly these events.
func (s *Step) ExpectEvents(events ...sdk.DaemonEvent) *Step {
	s.tb.Helper()
	return s.expect(slices.Equal(s.Events, events), "the events of the step are %q, expected %q", s.Events, events)
}

// ExpectNoStep expects that no step was due.
func (s *Step) ExpectNoStep() *Step {
	s.tb.Helper()
	return s.ExpectEvents()
}

// ExpectSuccess expects that a step was made and has not failed.
func (s *Step) ExpectSuccess() *Step {
	s.tb.Helper()
	s.expect(len(s.Events) > 0, "no step was due")
	return s.ExpectFailure(abi.ClassNone, "")
}

// ExpectFailure expects that the step failed with a class and a reason; "" is any reason.
func (s *Step) ExpectFailure(class abi.Class, reason string) *Step {
	s.tb.Helper()
	return s.expect(s.Class == class && (reason == "" || s.Reason == reason),
		"the step failed with class %q, %s (%s), expected %q, %s", s.Class, s.Reason, s.Message, class, reason)
}

// ExpectSignals expects that the step gave exactly these signals, in this order. They are JSON.
func (s *Step) ExpectSignals(signals ...string) *Step {
	s.tb.Helper()
	var got []string
	if s.Result != nil {
		for _, signal := range s.Result.Signals {
			got = append(got, string(signal))
		}
	}
	same := slices.EqualFunc(got, signals, func(a, b string) bool { return rawjson.Equal([]byte(a), []byte(b)) })
	return s.expect(same, "the step signals %q, expected %q", got, signals)
}

// ExpectLog expects a line whose message contains text.
func (s *Step) ExpectLog(text string) *Step {
	s.tb.Helper()
	return s.expect(hasLine(s.Logs, text), "the step logged %v, expected a line with %q", s.Logs, text)
}

// expect fails the test with a message unless ok.
func (s *Step) expect(ok bool, format string, args ...any) *Step {
	s.tb.Helper()
	if !ok {
		s.tb.Errorf(format, args...)
	}
	return s
}
