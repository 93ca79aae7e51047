package dispatch

import (
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sanitize"
)

// This file keeps, for people, how the latest run of each object has ended.

// LastRun is how the latest run of an object has ended.
type LastRun struct {
	Object   object.Key
	Gone     bool // the object does not exist any more, and a run of it is to end well
	Ended    time.Time
	Duration time.Duration
	Reasons  ReasonSet // why it ran; best effort
	Failure  *LastFailure
}

// LastFailure is why a run has failed, or waits. The message is on the object and in the log: others who
// read this need not see what a plugin has read.
type LastFailure struct {
	Class   abi.Class
	Reason  string // CamelCase, as in a condition; its first bytes
	Attempt int    // failed runs in a row
}

// maxLastReason bounds what is kept of a reason, which a plugin may choose, for each object.
const maxLastReason = 128

// ReasonSet is a set of reasons of a run.
type ReasonSet uint16

// reasonBits are the reasons of a [ReasonSet], by the numbers of their bits.
var reasonBits = []abi.Reason{
	abi.ReasonPrimary, abi.ReasonStatus, abi.ReasonOwned, abi.ReasonRead, abi.ReasonRequeue, abi.ReasonRetry,
	abi.ReasonResync, abi.ReasonPlugin, abi.ReasonRequest, abi.ReasonTimer, abi.ReasonSignal,
}

func newReasonSet(reasons []abi.Reason) (s ReasonSet) {
	for _, r := range reasons {
		if bit := slices.Index(reasonBits, r); bit >= 0 {
			s |= 1 << bit
		}
	}
	return s
}

// String returns the reasons, separated by commas.
func (s ReasonSet) String() string {
	var names []string
	for bit, r := range reasonBits {
		if s&(1<<bit) != 0 {
			names = append(names, string(r))
		}
	}
	return strings.Join(names, ", ")
}

// lastRun is what is kept of a [LastRun] for each object; why it failed is in [carried]. The zero value
// is that of an object that has not run.
type lastRun struct {
	ended   int64  // in Unix milliseconds
	micros  uint32 // its duration, at most 71 minutes
	reasons ReasonSet

	// inTerm is set if a run has begun since the replica leads, which may not have ended, and the
	// informer has not shown since that the object is gone.
	inTerm bool
	seen   seen
}

// keepLast keeps how the run has ended.
func (r *run) keepLast(e *events.RunEnded) {
	last := lastRun{
		ended: time.Now().UnixMilli(), reasons: newReasonSet(e.Reasons),
		micros: uint32(min(e.Duration.Microseconds(), 1<<32-1)),
	}
	var failed *LastFailure
	if f := e.Failure; f.Class != abi.ClassNone {
		failed = &LastFailure{f.Class, strings.Clone(sanitize.Truncate(f.Reason, maxLastReason)), e.Attempt}
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	last.inTerm, last.seen = r.state.last.inTerm, r.state.last.seen
	r.state.last, r.state.failed = last, failed
}

// LastRuns returns how the latest run of each object has ended, in no order.
func (c *Controller) LastRuns() []LastRun {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]LastRun, 0, len(c.keys))
	for key, s := range c.keys {
		out = s.appendLast(out, key, false)
	}
	for key, all := range c.goneObjects.byKey {
		for _, g := range all {
			out = g.state.appendLast(out, key, true)
		}
	}
	return out
}

// appendLast appends the latest run of a key, if there was one. Controller.mu is held.
func (s *keyState) appendLast(out []LastRun, key object.Key, gone bool) []LastRun {
	if s.last.ended == 0 {
		return out
	}
	run := LastRun{
		Object: key, Gone: gone, Ended: time.UnixMilli(s.last.ended), Reasons: s.last.reasons,
		Duration: time.Duration(s.last.micros) * time.Microsecond,
	}
	if s.carried != nil {
		run.Failure = s.failed
	}
	return append(out, run)
}
