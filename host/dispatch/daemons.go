package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// This file has the daemons of a controller (abi/SPEC.md, "Daemon"). A step is made at the begin of
// a run of its key, so that queue, retries and status are those of the run: a key that nothing but
// its daemon has made due is not reconciled unless the daemon asks for it by a signal, or fails.
// Between two steps a daemon is an entry of Controller.daemons, and the edges to what it has read.

// DaemonConfig is what the daemons of a revision of a controller need.
type DaemonConfig struct {
	Guest      Stepper
	Reads      StepReads
	Running    *atomic.Int64 // the number of daemons of the plugin that run
	Number     int           // how many there may be
	Fuel       int64         // that each of them may use in a second
	StateBytes int           // of each of them between two steps
}

// Stepper makes steps of daemons; [sandbox.Guest] implements it.
type Stepper interface {
	Daemon(ctx context.Context, call sandbox.Call) (sandbox.Return, error)
}

// StepReads is the part of [Cache] for steps: what they have read is remembered beside what the
// runs of the key have.
type StepReads interface {
	Begin(key object.Key, follows map[abi.Kind]scope.Reads) Reads
	Forget(key object.Key)
}

// start counts one more daemon, unless there are as many as there may be.
func (d *DaemonConfig) start() bool {
	if d.Running.Add(1) > int64(d.Number) {
		d.Running.Add(-1)
		return false
	}
	return true
}

func (d *DaemonConfig) stop() { d.Running.Add(-1) }

// daemon is that of one object. Who has put something into step makes a step, or the last one;
// Controller.mu guards the fields below.
type daemon struct {
	uid      object.Hash
	revision *Revision     // that it was started by
	step     chan struct{} // capacity 1

	running   bool            // it was started, and has neither ended nor failed
	ended     bool            // by itself
	failure   *effect.Failure // why it does not run; nil if it does, or has not been started
	retryAt   time.Time       // with failure: when it is started again; zero: when the object has changed
	state     []byte
	wait      abi.DaemonWait
	due       time.Time   // by wait.After; zero: never
	notBefore time.Time   // until then its last steps have used up its fuel
	input     object.Hash // of what the last step was given
	changed   bool        // the object differs from that
	woken     [2]bool     // by what it has read otherwise, and of an index
	byOthers  bool        // something of that was not changed by runs of the key
}

// wokenBy are the events of [daemon.woken].
var wokenBy = [...]abi.DaemonEvent{abi.DaemonRead, abi.DaemonIndex}

// dueIn returns the time until the next step, which is positive; 0 if only an event leads to one.
func (d *daemon) dueIn(now time.Time) time.Duration {
	due := d.due
	switch {
	case d.ended:
		return 0
	case d.failure != nil:
		due = d.retryAt
	case !d.running, d.wait.Object && d.changed, d.wait.Reads && d.woken != [2]bool{}:
		due = now
	}
	if due.IsZero() {
		return 0
	}
	if d.notBefore.After(due) {
		due = d.notBefore
	}
	return max(due.Sub(now), 1)
}

// events returns why a step is to be made now of a daemon that runs.
func (d *daemon) events(now time.Time) (events []abi.DaemonEvent) {
	if d.wait.Object && d.changed {
		events = append(events, abi.DaemonObject)
	}
	for i, woken := range d.woken {
		if woken && d.wait.Reads {
			events = append(events, wokenBy[i])
		}
	}
	if !d.due.IsZero() && !d.due.After(now) {
		events = append(events, abi.DaemonTime)
	}
	return events
}

// inputDigest returns a digest of what wakes a daemon of an object: spec, labels and annotations.
func inputDigest(o *object.Object) object.Hash {
	var text strings.Builder
	fmt.Fprintf(&text, "%q %q ", o.Labels, userAnnotations(o))
	if o.Generation != 0 {
		fmt.Fprint(&text, o.Generation)
	} else {
		text.Write(spec(o.Raw))
	}
	return object.HashOf(text.String())
}

// userAnnotations returns the annotations that count as input.
func userAnnotations(o *object.Object) map[string]string {
	counted := make(map[string]string, len(o.Annotations))
	for name, value := range o.Annotations {
		if countsAsInput(name) {
			counted[name] = value
		}
	}
	return counted
}

// ObserveDaemonRead handles the change of an object that the daemon of a key has read, as
// [Controller.ObserveRead] does.
func (c *Controller) ObserveDaemonRead(key object.Key, old, updated *object.Object, crowd bool) {
	o := cmp.Or(updated, old)
	switch {
	case o == nil:
		c.wakeDaemon(key, change{reason: abi.ReasonDaemon, crowd: crowd})
		return
	case c.handling.of(old, updated):
		return
	}
	made := changeOf(abi.ReasonDaemon, old, updated)
	made.crowd, made.index = crowd, c.readKind(o.Kind) != o.Kind
	c.changedFor(toRead, o, made, key)
}

// wakeDaemon records that something has changed that the daemon of a key has read. What that means
// for the key is known when a run in progress has ended, which may have made the change.
func (c *Controller) wakeDaemon(key object.Key, made change) {
	c.mu.Lock()
	if d := c.daemons[key]; d == nil {
		c.mu.Unlock()
		return
	} else if made.index {
		d.woken[1] = true
	} else {
		d.woken[0] = true
	}
	s := c.keys[key]
	if s != nil && s.running && len(s.deferred) < maxDeferred {
		s.deferred = append(s.deferred, made)
		c.mu.Unlock()
		return
	}
	w := s.wakeUp(made)
	c.mu.Unlock()
	c.daemonWoken(key, w)
}

// daemonWoken makes a key due if its daemon waits for what it has read.
func (c *Controller) daemonWoken(key object.Key, w wakeUp) {
	c.mu.Lock()
	d := c.daemons[key]
	if d != nil {
		d.byOthers = d.byOthers || !w.own
	}
	due := d != nil && d.running && d.wait.Reads
	c.mu.Unlock()
	switch {
	case !due:
	case w.pause > 0:
		c.Queue.AddOwn(key, w.reason, w.pause)
	case w.crowd:
		c.Queue.AddBackground(key, w.reason)
	default:
		c.Queue.Add(key, w.reason)
	}
}

// missedReads makes every daemon take what it has read for changed.
func (c *Controller) missedReads() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.daemons {
		d.woken[0], d.byOthers = true, true
	}
}
