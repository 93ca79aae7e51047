package dispatch

import (
	"container/list"
	"fmt"
	"math"
	"time"

	"github.com/thole-dev/thole/host/object"
)

// BreakerState is the state of a [Breaker].
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = "closed"    // admits every run
	BreakerOpen     BreakerState = "open"      // admits no probe
	BreakerHalfOpen BreakerState = "half-open" // admits one probe at a time
)

// BreakerStates lists every state, for metrics that exist at zero.
func BreakerStates() []string {
	return []string{string(BreakerClosed), string(BreakerHalfOpen), string(BreakerOpen)}
}

// Bounds of the time that a circuit stays open.
const (
	minPause = time.Second
	maxPause = 10 * time.Second
	// probeShare bounds the share of an execution slot that failing probes take:
	// but for the jitter, a pause is at least probeShare times as long as the
	// failing call before it.
	probeShare = 5
	// probesToClose is how many probes in a row must succeed.
	probesToClose = 3
	// pauseDecay is how long a circuit must be closed for its next pause to
	// begin one step shorter.
	pauseDecay = time.Minute
	// quietTime is how long after its last pause a circuit is closed by any run that does not
	// fail: nothing has been there to probe.
	quietTime = time.Minute
	// trialPause is for how long no trial follows one that failed; as long as the trial took, if
	// that is longer.
	trialPause = time.Second
)

// pacer admits one run at a time, and none before a time.
type pacer struct {
	busy  bool // a run is in progress
	until time.Time
}

func (p *pacer) admits(now time.Time) bool { return !p.busy && !now.Before(p.until) }

// circuit is the state machine of a [Breaker]. It is pure: time and jitter are
// arguments. While it is not closed, two kinds of runs are paced: probes, which may close
// it, and trials of objects that have run well. What runs on credit passes it by.
//
// Invariant: of the runs in progress, all count while it is closed, and otherwise at most
// one probe and one trial. A run that was admitted before the last opening or closing does
// not count.
type circuit struct {
	state  BreakerState // half-open once the first probe was admitted
	since  time.Time    // when it closed, or opened
	reason string       // why it opened
	epoch  uint64       // counts openings and closings
	window failureWindow
	step   int // of the next pause

	probe     pacer // its time is zero when the circuit is closed
	trial     pacer
	succeeded int // probes in a row
}

func newCircuit(now time.Time) circuit {
	return circuit{state: BreakerClosed, since: now, window: newFailureWindow()}
}

// stateAt returns the state as seen from outside: a circuit is half-open as soon
// as its pause is over.
func (c *circuit) stateAt(now time.Time) BreakerState {
	if c.state == BreakerOpen && !now.Before(c.probe.until) {
		return BreakerHalfOpen
	}
	return c.state
}

// admits reports whether admit would admit a run.
func (c *circuit) admits(now time.Time) bool {
	return c.state == BreakerClosed || c.probe.admits(now)
}

// admit admits any run while the circuit is closed, and else a probe. It must end with report
// or cancel, with the returned epoch.
func (c *circuit) admit(now time.Time) (epoch uint64, ok bool) {
	if !c.admits(now) {
		return 0, false
	}
	if c.state != BreakerClosed {
		c.state, c.probe.busy = BreakerHalfOpen, true
	}
	return c.epoch, true
}

// cancel ends a run that does not count.
func (c *circuit) cancel(epoch uint64) {
	if epoch == c.epoch {
		c.probe.busy = false
	}
}

// report ends a run of an object that spent the given time in the guest. jitter
// in [0,1) shortens the pause.
func (c *circuit) report(now time.Time, epoch uint64, s subject, failed bool, took time.Duration, jitter float64) {
	if epoch != c.epoch {
		return
	}
	switch {
	case c.state == BreakerClosed:
		c.window.add(now, s, failed, took)
		if reason, exceeded := c.window.exceeds(); failed && exceeded {
			c.open(now, reason, took, jitter)
		}
	case failed:
		c.probe.busy, c.succeeded = false, 0
		c.pause(now, took, jitter)
	default:
		c.probe.busy = false
		if c.succeeded++; c.succeeded == probesToClose {
			c.close(now)
		}
	}
}

// admitTrial admits a trial while the circuit is not closed. It must end with endTrial, with
// the returned epoch.
func (c *circuit) admitTrial(now time.Time) (epoch uint64, ok bool) {
	if c.state == BreakerClosed || !c.trial.admits(now) {
		return 0, false
	}
	c.trial.busy = true
	return c.epoch, true
}

// endTrial ends a trial. failed is false for one that does not count.
func (c *circuit) endTrial(now time.Time, epoch uint64, failed bool, took time.Duration) {
	if epoch != c.epoch {
		return
	}
	if c.trial.busy = false; failed {
		c.trial.until = now.Add(max(trialPause, took))
	}
}

// ranWell records that a run has succeeded that is no probe.
func (c *circuit) ranWell(now time.Time, epoch uint64) {
	quiet := func(p pacer) bool { return !p.busy && now.Sub(p.until) >= quietTime }
	if epoch == c.epoch && c.state != BreakerClosed && quiet(c.probe) && quiet(c.trial) {
		c.close(now)
	}
}

func (c *circuit) open(now time.Time, reason string, took time.Duration, jitter float64) {
	c.step = max(0, c.step-int(now.Sub(c.since)/pauseDecay))
	c.since, c.reason, c.window = now, reason, newFailureWindow()
	c.probe, c.trial = pacer{}, pacer{}
	c.epoch++
	c.pause(now, took, jitter)
}

// pause admits no probe for a time that doubles with each pause.
func (c *circuit) pause(now time.Time, took time.Duration, jitter float64) {
	pause := minPause << c.step
	if pause < maxPause {
		c.step++
	}
	pause = max(min(pause, maxPause), probeShare*took)
	pause -= time.Duration(jitter * float64(pause) / 5)
	c.state, c.probe.until = BreakerOpen, now.Add(pause)
}

func (c *circuit) close(now time.Time) {
	c.state, c.since, c.reason, c.succeeded = BreakerClosed, now, "", 0
	c.probe, c.trial = pacer{}, pacer{}
	c.epoch++
}

// What it takes to open a circuit; RATIONALE.md gives the reasons.
const (
	windowObjects      = 100              // objects whose last runs are looked at
	minFailing         = 10               // of them must have failed,
	minFailingShare    = 0.8              // and at least this share,
	failedTimeLimit    = 30 * time.Second // or failing calls took this long in the guest
	minFailingForTime  = 5                // for at least so many objects
	failedTimeHalfLife = 30 * time.Second // after this, time counts half
)

// subject is an object or a turn of one of the plugin's controllers.
type subject struct {
	controller string
	key        object.Key // or that of a turn
}

// tenant returns whom the failures of the object concern: its namespace, or a turn itself,
// which is for all of them.
func (s subject) tenant() string {
	if isTurn(s.key) {
		return s.key.Name
	}
	return s.key.Namespace
}

// failureWindow is the recent history of a plugin: the last run of each of the
// objects that ran most recently, and the decaying time that failing and all
// calls spent in the guest. An object counts once, however often it is retried.
type failureWindow struct {
	recent    *list.List // of *sample, the most recent first
	bySubject map[subject]*list.Element
	failing   int // samples that failed

	at                    time.Time // when the times were computed
	failedTime, totalTime time.Duration
}

// sample is the last run of an object.
type sample struct {
	subject
	failed bool
}

func newFailureWindow() failureWindow {
	return failureWindow{recent: list.New(), bySubject: map[subject]*list.Element{}}
}

// add adds a run of an object.
func (w *failureWindow) add(now time.Time, s subject, failed bool, took time.Duration) {
	w.decay(now)
	w.totalTime += took
	if failed {
		w.failedTime += took
	}
	latest := w.sampleOf(s)
	if latest.failed {
		w.failing--
	}
	if latest.failed = failed; failed {
		w.failing++
	}
}

// sampleOf returns the sample of an object and makes it the most recent one. The
// sample of a new object replaces the least recent one if the window is full.
func (w *failureWindow) sampleOf(s subject) *sample {
	element := w.bySubject[s]
	switch {
	case element != nil:
	case w.recent.Len() < windowObjects:
		element = w.recent.PushFront(&sample{subject: s})
		w.bySubject[s] = element
	default:
		element = w.recent.Back()
		delete(w.bySubject, element.Value.(*sample).subject)
		element.Value.(*sample).subject = s
		w.bySubject[s] = element
	}
	w.recent.MoveToFront(element)
	return element.Value.(*sample)
}

func (w *failureWindow) decay(now time.Time) {
	left := math.Exp2(-float64(now.Sub(w.at)) / float64(failedTimeHalfLife))
	w.failedTime = time.Duration(float64(w.failedTime) * left)
	w.totalTime = time.Duration(float64(w.totalTime) * left)
	w.at = now
}

// exceeds reports whether so much fails that the plugin, and not some of its
// objects, is the reason, and describes it.
func (w *failureWindow) exceeds() (reason string, exceeded bool) {
	objects := w.recent.Len()
	switch {
	case w.failing >= minFailing && float64(w.failing) >= minFailingShare*float64(objects):
		return fmt.Sprintf("%d of the last %d objects failed through the plugin itself", w.failing, objects), true
	case w.failing >= minFailingForTime && w.failedTime >= failedTimeLimit && float64(w.failedTime) >= minFailingShare*float64(w.totalTime):
		return fmt.Sprintf("failing calls of %d objects took %s of the last %s in the plugin", w.failing, w.failedTime.Round(time.Second), w.totalTime.Round(time.Second)), true
	}
	return "", false
}
