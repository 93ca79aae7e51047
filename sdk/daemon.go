package sdk

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// Daemon returns what each object of a [Controller] does in the background, from its creation to
// its deletion: the body of a loop, which the host calls again whenever what it waits for has
// come. It belongs into the field Daemon.
//
//	Daemon: sdk.Daemon(func(d *sdk.DaemonStep[Spec, Status], seen *Seen) error {
//		if d.Stopping() {
//			return nil
//		}
//		items, err := d.Lookup(sdk.IndexQuery{Index: "sites", Key: d.Name})
//		if err == nil && (d.Woken(sdk.DaemonStart) || len(items) != seen.Count) {
//			seen.Count = len(items)
//			d.Signal(seen)
//		}
//		d.Wait(sdk.ReadChange(), sdk.After(time.Minute))
//		return err
//	})
//
// Between two steps the host keeps the state and nothing else, of at most 32 KiB as JSON: a daemon
// that waits is no goroutine. In the first step the state is the zero value. Variables of the
// package are as they were when the plugin was loaded. A daemon that keeps nothing has a state of
// type struct{}.
//
// A daemon changes nothing in the cluster itself: it signals, and Reconcile acts, whose runs have
// the [Run].Signals until one has ended well. A step may be made beside a run of the object, and
// is repeatable like one. One that returns an error, or does not return, ends the daemon: the
// object shows the failure, and the daemon is started anew, without state, after a backoff of its
// own or the time of a [RetryAfter] or [Waiting], and when somebody has changed the object.
//
// A daemon is stopped by a last step, in which [Step.Stopping] is true and nothing can be read,
// when the object is being deleted or ceases to match [DaemonSelector], and when the plugin is
// removed or replaced. It is started anew with each revision and on each host.
func Daemon[State, Spec, Status Value](step func(*DaemonStep[Spec, Status], *State) error, options ...DaemonOption) *DaemonOf[Spec, Status] {
	if step == nil {
		panic("sdk.Daemon: the function is nil")
	}
	require[State]()
	d := &DaemonOf[Spec, Status]{}
	for _, option := range options {
		option(&d.manifest)
	}
	d.register = func(c *abi.Controller) {
		c.Finalizer = true
		c.Sections = append(c.Sections, abi.Section{Name: daemon.Name, Value: daemon.Encode(&d.manifest)})
		guest.AddDaemon(&guest.Daemon{
			Controller: c.Name,
			Warm:       warmState[State],
			Step: func(h guest.Host, q *daemon.Request) (abi.Code, *daemon.Result) {
				s := &DaemonStep[Spec, Status]{Step: newStep(h, q)}
				state := new(State)
				_, err := readObject(rawjson.NewReader(q.Object), &s.ObjectMeta, &s.Spec, &s.Status)
				if err == nil && q.State != nil {
					err = decode(q.State, state)
				}
				if err == nil {
					err = step(s, state)
				}
				if err == nil {
					err = s.setState(encodeState(state))
				}
				return s.end(err)
			},
		})
	}
	return d
}

// DaemonOf is made by [Daemon].
type DaemonOf[Spec, Status Value] struct {
	manifest daemon.Daemon
	register func(*abi.Controller) // a field, so that plugins without a daemon do not contain its code
}

// DaemonOption is an option of [Daemon].
type DaemonOption func(*daemon.Daemon)

// DaemonSelector gives a daemon to those objects alone whose labels match a selector in the
// notation of kubectl. When they cease to, the daemon is stopped.
func DaemonSelector(labelSelector string) DaemonOption {
	return func(d *daemon.Daemon) { d.LabelSelector = labelSelector }
}

// StepTimeout limits one step; the default is that of the host.
func StepTimeout(timeout time.Duration) DaemonOption {
	return func(d *daemon.Daemon) { d.Timeout = milliseconds(timeout) }
}

// StopGrace limits the last step, and the wait for the one before; the default is 10 s.
func StopGrace(grace time.Duration) DaemonOption {
	return func(d *daemon.Daemon) { d.Grace = milliseconds(grace) }
}

// DaemonStep is one step of the daemon of an object, with the types of its spec and status. In the
// last step both may be zero: the object may be gone.
type DaemonStep[Spec, Status Value] struct {
	*Step
	ObjectMeta
	Spec   Spec
	Status Status
}

// Step is the part of a [DaemonStep] that does not depend on the types of spec and status.
type Step struct {
	// Events are why the step is made.
	Events []DaemonEvent
	// Now is the time of the step, UTC. Package time uses the same clock.
	Now time.Time
	// Log writes to the host's log.
	Log Log

	run     *Run // for reads
	result  daemon.Result
	invalid error // of the first signal that could not be encoded
}

// DaemonEvent is why a step is made.
type DaemonEvent = daemon.Event

// Values of [Step].Events.
const (
	DaemonStart  DaemonEvent = daemon.Start  // the first step, also after a failure and on another host
	DaemonTime   DaemonEvent = daemon.Time   // the time of the last step has passed
	DaemonObject DaemonEvent = daemon.Object // the spec, labels or annotations of the object have changed
	DaemonIndex  DaemonEvent = daemon.Index  // what the last step has read of an index has changed
	DaemonRead   DaemonEvent = daemon.Read   // what the last step has read otherwise has changed
	DaemonStop   DaemonEvent = daemon.Stop   // the last step: nothing can be read
)

func newStep(h guest.Host, q *daemon.Request) *Step {
	run := newRun(h, &abi.Request{Object: q.Object, Now: q.Now, Seed: q.Seed, Config: q.Config})
	return &Step{Events: q.Events, Now: q.Now, Log: run.Log, run: run}
}

// Woken reports whether an event is one of those because of which the step is made.
func (s *Step) Woken(by DaemonEvent) bool { return slices.Contains(s.Events, by) }

// Stopping reports whether the step is the last one.
func (s *Step) Stopping() bool { return s.Woken(DaemonStop) }

// WaitFor is what a daemon waits for.
//
//	type WaitFor struct {
//		After  int64 // ms; less than 100 counts as 100; 0 for no time
//		Object bool  // a change of the spec, labels or annotations of the object
//		Reads  bool  // a change of what the step has read
//	}
type WaitFor = daemon.Wait

// After waits for a time, of at least 100 ms.
func After(d time.Duration) WaitFor { return WaitFor{After: max(milliseconds(d), 1)} }

// ObjectChange waits for a change of the spec, labels or annotations of the object.
func ObjectChange() WaitFor { return WaitFor{Object: true} }

// ReadChange waits for a change of what the step has read: by Get, List and Lookup.
func ReadChange() WaitFor { return WaitFor{Reads: true} }

// Wait sets what leads to the next step: the first of these that comes. A step that does not call
// it waits for its last step. Of several calls the last one counts.
func (s *Step) Wait(first ...WaitFor) {
	s.result.Wait = WaitFor{}
	for _, w := range first {
		if s.result.Wait.After == 0 || w.After > 0 && w.After < s.result.Wait.After {
			s.result.Wait.After = w.After
		}
		s.result.Wait.Object = s.result.Wait.Object || w.Object
		s.result.Wait.Reads = s.result.Wait.Reads || w.Reads
	}
}

// End ends the daemon, whose work is done: there is no further step until the plugin or the host
// is started again.
func (s *Step) End() { s.result.End = true }

// Signal makes the object run, with a value of at most 4 KiB as JSON in [Run].Signals. A step gives
// at most 16.
func (s *Step) Signal(v Value) {
	data, err := encode(v)
	if err != nil && s.invalid == nil {
		s.invalid = Stalled("InvalidSignal", errors.New("encode signal: "+err.Error()))
	}
	s.result.Signals = append(s.result.Signals, data)
}

// Object is [Run.Object].
func (s *Step) Object() Raw { return s.run.object }

// Rand is [Run.Rand].
func (s *Step) Rand() *rand.Rand { return s.run.Rand() }

// Config is [Run.Config].
func (s *Step) Config(into Value) error { return s.run.Config(into) }

// Get is [Run.Get], and a change of what it reads leads to a step: see [ReadChange].
func (s *Step) Get(ref Ref, into Value, options ...ReadOption) error {
	return s.run.Get(ref, into, options...)
}

// List is [Run.List], and a change of what it reads leads to a step: see [ReadChange].
func (s *Step) List(query Query, into Value, options ...ReadOption) error {
	return s.run.List(query, into, options...)
}

// Lookup is [Run.Lookup], and a change of what it reads leads to a step: see [ReadChange].
func (s *Step) Lookup(query IndexQuery) ([]IndexItem, error) { return s.run.Lookup(query) }

// encodeState returns a state as JSON, nil if there is nothing to keep.
func encodeState[State Value](state *State) ([]byte, error) {
	switch v := any(state).(type) {
	case *struct{}:
		return nil, nil
	case *Raw:
		if len(*v) == 0 {
			return nil, nil
		}
	}
	return encode(state)
}

// warmState is [warm] for a state.
func warmState[State Value]() error {
	data, err := encodeState(new(State))
	if err == nil && data != nil {
		err = decode(data, new(State))
	}
	return err
}

// setState sets the state for the next step.
func (s *Step) setState(data []byte, err error) error {
	if err != nil {
		return Stalled("InvalidState", errors.New("encode state: "+err.Error()))
	}
	s.result.State = data
	return s.invalid
}

// end returns the code and the result of the step.
func (s *Step) end(err error) (abi.Code, *daemon.Result) {
	if err == nil {
		return abi.CodeOK, &s.result
	}
	code, failure := failureOf(err)
	return code, &daemon.Result{Error: failure}
}
