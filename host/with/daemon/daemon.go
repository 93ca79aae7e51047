package daemon

import (
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// daemon is that of one object. It is a [dispatch.ObjectTurn]: the lock of the controller guards it, and a call in
// progress owns decoded.
type daemon struct {
	plugin   *plugin
	revision *dispatch.Revision // that it was started by
	contract.Daemon
	limits Policy

	running bool               // it was started, and has neither ended nor failed
	ended   bool               // by itself
	failure *abi.EffectFailure // of its last step; nil: it has not failed, or not been started
	tries   int                // failures in a row
	retryAt time.Time          // with failure: when it is started again; zero: when the object has changed
	state   []byte
	wait    contract.Wait
	due     time.Time   // by wait.After; zero: never
	until   time.Time   // until then its last steps have used up its fuel
	input   object.Hash // of what the last step was given
	step    *step       // in progress; nil: none

	gauge   prometheus.Gauge // that counts it, since it was started
	decoded *contract.Result
}

// step is a step in progress.
type step struct {
	start bool
	input object.Hash
	began time.Time
}

func (c *controller) newDaemon(rev *dispatch.Revision) dispatch.ObjectTurn {
	return &daemon{plugin: c.plugin, revision: rev, Daemon: *c.of(rev).daemon, limits: *c.policy.Load()}
}

// Begin implements [dispatch.ObjectTurn].
func (d *daemon) Begin(b *dispatch.BeginningTurn) (*dispatch.TurnCall, dispatch.TurnNext) {
	input := dispatch.InputDigest(b.Object)
	events, after := d.events(b, d.input != input)
	if events == nil {
		return nil, d.next(after)
	}
	start := events[0] == contract.Start
	if start && !d.start() {
		d.input = input
		d.fail(b.Now, &abi.EffectFailure{Class: abi.ClassDenied, Reason: "TooManyDaemons", Message: fmt.Sprintf(
			"the plugin has %d daemons, which is its limit: raise daemon.number in the plugin's policy, and in the file of --config if that has no more", d.limits.Number)}, 0)
		return nil, d.next(d.untilRetry(b.Now))
	}
	d.running, d.step = true, &step{start: start, input: input, began: b.Now}
	byReads := !start
	for _, e := range events {
		byReads = byReads && (e == contract.Read || e == contract.Index)
	}
	return d.call(b, events, time.Duration(d.Timeout)*time.Millisecond, byReads), dispatch.TurnNext{}
}

// events returns why a step is to be made now, nil if none is, and then the time until one is; 0 for no time.
func (d *daemon) events(b *dispatch.BeginningTurn, changed bool) (events []contract.Event, after time.Duration) {
	due := d.due
	switch {
	case d.ended:
		return nil, 0
	case d.running:
		if d.wait.Object && changed {
			events = append(events, contract.Object)
		}
		if d.wait.Reads && b.Woken.Reads {
			events = append(events, contract.Read)
		}
		if d.wait.Reads && b.Woken.Index {
			events = append(events, contract.Index)
		}
		if !due.IsZero() && !due.After(b.Now) {
			events = append(events, contract.Time)
		}
	case d.failure == nil || changed || !d.retryAt.IsZero() && !d.retryAt.After(b.Now):
		events = append(events, contract.Start)
	default:
		due = d.retryAt
	}
	if events != nil {
		due = b.Now
	}
	switch {
	case due.IsZero():
		return nil, 0
	case d.until.After(due):
		due, events = d.until, nil
	}
	if events != nil {
		return events, 0
	}
	return nil, max(due.Sub(b.Now), 1)
}

// start counts the daemon as one that runs, unless there are as many as there may be.
func (d *daemon) start() bool {
	if d.plugin.running.Add(1) > int64(d.limits.Number) {
		d.plugin.running.Add(-1)
		return false
	}
	d.gauge = d.plugin.metrics.running.WithLabelValues(d.plugin.name)
	d.gauge.Inc()
	return true
}

// rest is for a daemon that runs no more.
func (d *daemon) rest() {
	d.running = false
	d.plugin.running.Add(-1)
	d.gauge.Dec() // of a series that may be removed
}

// next is what becomes of the daemon if no step is made.
func (d *daemon) next(after time.Duration) dispatch.TurnNext {
	return dispatch.TurnNext{After: after, Failure: d.failure}
}

func (d *daemon) call(b *dispatch.BeginningTurn, events []contract.Event, deadline time.Duration, byReads bool) *dispatch.TurnCall {
	return &dispatch.TurnCall{
		Request: contract.EncodeRequestParts(&contract.Request{
			Controller: d.revision.Controller.Name, Object: b.Given, Events: events, State: d.state, Now: b.Now, Seed: b.Seed, Config: d.revision.Config,
		}),
		Deadline: deadline, Fuel: d.limits.Fuel, ByReads: byReads,
	}
}

// Decode implements [dispatch.ObjectTurn].
func (d *daemon) Decode(output []byte) (signals [][]byte, failure *abi.Failure, err error) {
	d.decoded, err = contract.DecodeResult(output)
	if err != nil {
		return nil, nil, err
	}
	if most := d.limits.StateKiB << 10; len(d.decoded.State) > most {
		return nil, nil, &dispatch.ResultError{Reason: "DaemonStateTooLarge", Message: fmt.Sprintf(
			"the state of the daemon has %d bytes, and the limit is %d: keep less, or raise daemon.stateKiB in the plugin's policy, and in the file of --config if that has no more", len(d.decoded.State), most)}
	}
	return d.decoded.Signals, d.decoded.Error, nil
}

// shortestWait is that of a daemon which asks for less.
const shortestWait = 100 * time.Millisecond

// End implements [dispatch.ObjectTurn].
func (d *daemon) End(e *dispatch.EndedTurn) dispatch.TurnNext {
	made, result := d.step, d.decoded
	d.step, d.decoded = nil, nil
	d.until = made.began.Add(time.Duration(float64(e.Fuel) / float64(d.limits.Fuel) * float64(time.Second)))
	if e.Uncounted {
		if made.start {
			d.rest()
		}
		return d.next(0)
	}
	failed := e.Failure.Class != abi.ClassNone
	d.plugin.metrics.stepped(d.plugin.name, d.revision.Controller.Name, failed)
	d.input = made.input
	if failed {
		d.rest()
		var asked int64
		if result != nil && result.Error != nil {
			asked = result.Error.After
		}
		d.fail(e.Now, &abi.EffectFailure{Class: e.Failure.Class, Reason: e.Failure.Reason, Message: e.Failure.Message}, time.Duration(asked)*time.Millisecond)
		return d.next(d.untilRetry(e.Now))
	}
	d.failure, d.tries = nil, 0
	d.state, d.wait, d.due = result.State, result.Wait, time.Time{}
	if result.Wait.After > 0 {
		d.due = e.Now.Add(max(time.Duration(result.Wait.After)*time.Millisecond, shortestWait))
	}
	if result.End {
		d.rest()
		d.ended, d.state = true, nil
	}
	_, after := d.events(&dispatch.BeginningTurn{Now: e.Now}, false)
	return d.next(after)
}

// fail drops what a daemon has that has failed. It is started again after a time that the error has asked for, or a
// backoff as that of runs, and one of the class stalled when the object has changed.
func (d *daemon) fail(now time.Time, failure *abi.EffectFailure, asked time.Duration) {
	failure.Verb = contract.Verb
	d.failure, d.retryAt = failure, time.Time{}
	d.state, d.wait, d.due = nil, contract.Wait{}, time.Time{}
	switch {
	case asked > 0:
		d.retryAt = now.Add(max(asked, shortestWait))
	case failure.Class != abi.ClassStalled:
		d.retryAt = now.Add(outcome.Delay(d.revision.Controller.Retry, d.tries, mathrand.Float64()))
	}
	d.tries++
}

// untilRetry returns the time until the daemon is started again, 0 for when its object has changed.
func (d *daemon) untilRetry(now time.Time) time.Duration {
	if d.retryAt.IsZero() {
		return 0
	}
	return max(d.retryAt.Sub(now), d.until.Sub(now), 1)
}

// Stop implements [dispatch.ObjectTurn].
func (d *daemon) Stop(b *dispatch.BeginningTurn) *dispatch.TurnCall {
	if !d.running {
		return nil
	}
	if d.rest(); b == nil {
		return nil
	}
	return d.call(b, []contract.Event{contract.Stop}, grace(&d.Daemon), false)
}

// LastEnded implements [dispatch.ObjectTurn].
func (d *daemon) LastEnded(failed bool) {
	d.plugin.metrics.stepped(d.plugin.name, d.revision.Controller.Name, failed)
}

var _ dispatch.ObjectTurn = (*daemon)(nil)
