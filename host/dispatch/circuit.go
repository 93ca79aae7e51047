package dispatch

import "time"

// BreakerState is what a [Breaker] lets through.
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = "closed"    // every run
	BreakerOpen     BreakerState = "open"      // none
	BreakerHalfOpen BreakerState = "half-open" // one run at a time, the probe
)

// BreakerStates lists every state, for metrics that exist at zero.
func BreakerStates() []string {
	return []string{string(BreakerClosed), string(BreakerHalfOpen), string(BreakerOpen)}
}

// Bounds of the time that a circuit stays open.
const (
	firstPause   = time.Second
	longestPause = 10 * time.Second
	// probeShare bounds what failing probes take of a slot: a pause is at
	// least so many times as long as the call that led to it, but for the
	// jitter.
	probeShare = 5
	// soundProbes in a row close the circuit.
	soundProbes = 3
	// forgiven is how long a circuit must be closed to shorten its next pause
	// by one step.
	forgiven = time.Minute
)

// circuit is the state machine of a [Breaker]: pure but for the times and the
// jitter that it is given.
//
// Invariant: of the runs that are under way any number counts while it is
// closed, none while it is open, and at most one while it is half-open. A run
// that began before the last opening or closing counts for nothing.
type circuit struct {
	state    BreakerState // half-open from the first probe on
	since    time.Time    // of closed, or of the opening
	reason   string       // of the opening
	stretch  uint64       // counts openings and closings: a pass of an earlier one counts for nothing
	evidence evidence     // while closed
	step     int          // of the next pause

	until   time.Time // no probe before; not when closed
	probing bool
	sound   int // probes in a row that the plugin ended
}

func newCircuit(now time.Time) circuit {
	return circuit{state: BreakerClosed, since: now, evidence: newEvidence()}
}

// at returns the state as it is seen at a time: half-open begins with the end
// of the pause.
func (c *circuit) at(now time.Time) BreakerState {
	if c.state == BreakerOpen && !now.Before(c.until) {
		return BreakerHalfOpen
	}
	return c.state
}

// free says whether a run would be let through.
func (c *circuit) free(now time.Time) bool {
	state := c.at(now)
	return state == BreakerClosed || state == BreakerHalfOpen && !c.probing
}

// admit lets a run through, or not. Who is let through reports or cancels.
func (c *circuit) admit(now time.Time) (stretch uint64, ok bool) {
	if !c.free(now) {
		return 0, false
	}
	if c.state != BreakerClosed {
		c.state, c.probing = BreakerHalfOpen, true
	}
	return c.stretch, true
}

// cancel ends a run that says nothing about the plugin.
func (c *circuit) cancel(stretch uint64) {
	if stretch == c.stretch {
		c.probing = false
	}
}

// report ends a run of an object that the plugin ended or failed, after the
// given time in the guest. jitter in [0,1) spreads the pause.
func (c *circuit) report(now time.Time, stretch uint64, s subject, failed bool, took time.Duration, jitter float64) {
	if stretch != c.stretch {
		return
	}
	switch {
	case c.state == BreakerClosed:
		c.evidence.add(now, s, failed, took)
		if reason := c.evidence.damning(); failed && reason != "" {
			c.open(now, reason, took, jitter)
		}
	case failed:
		c.probing, c.sound = false, 0
		c.pause(now, took, jitter)
	default:
		c.probing = false
		if c.sound++; c.sound == soundProbes {
			c.close(now)
		}
	}
}

func (c *circuit) open(now time.Time, reason string, took time.Duration, jitter float64) {
	c.step = max(0, c.step-int(now.Sub(c.since)/forgiven))
	c.since, c.reason, c.evidence = now, reason, newEvidence()
	c.stretch++
	c.pause(now, took, jitter)
}

// pause lets no probe through for a time that doubles with each.
func (c *circuit) pause(now time.Time, took time.Duration, jitter float64) {
	pause := firstPause << c.step
	if pause < longestPause {
		c.step++
	}
	pause = max(min(pause, longestPause), probeShare*took)
	pause -= time.Duration(jitter * float64(pause) / 5)
	c.state, c.until = BreakerOpen, now.Add(pause)
}

func (c *circuit) close(now time.Time) {
	c.state, c.since, c.reason, c.until, c.sound = BreakerClosed, now, "", time.Time{}, 0
	c.stretch++
}
