package dispatch

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// RevisionComparison is the probation of a new revision: it compares how runs of
// objects end under it with how they ended under the revision before. It is
// shared by the controllers of the plugin and safe for concurrent use. A nil
// *RevisionComparison is one that is over and was passed.
type RevisionComparison struct {
	ends   time.Time
	failed func(reason string)

	mu          sync.Mutex
	score       score
	hasFailed   bool
	lastFailure string
}

// NewRevisionComparison begins a probation that ends at a time. failed is called
// at most once, when the new revision does worse; it must not call methods of
// the comparison.
func NewRevisionComparison(ends time.Time, failed func(reason string)) *RevisionComparison {
	return &RevisionComparison{ends: ends, failed: failed}
}

// Healthy reports whether the revision is one to roll back to, and to compare its
// successor with: it has run and failed for no object that did not fail before,
// or its probation has ended.
func (c *RevisionComparison) Healthy() bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.hasFailed && (c.score.healthy() || !time.Now().Before(c.ends))
}

// record adds a run of an object, whose history was changed by it from before to
// after.
func (c *RevisionComparison) record(before, after runHistory, r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasFailed || !time.Now().Before(c.ends) {
		return
	}
	c.score.objectCounts = c.score.plus(before.compare(), -1).plus(after.compare(), 1)
	if after.before == healthy && after.now.bad() {
		c.score.failures++
		c.lastFailure = fmt.Sprintf("%s: %s", r.item.Key, r.decision.Class)
	}
	if c.score.exceeds() {
		c.hasFailed = true
		c.failed(fmt.Sprintf("%d of %d objects fail that did not fail before; the last: %s", c.score.worse, c.score.compared, c.lastFailure))
	}
}

// score sums up a comparison.
type score struct {
	objectCounts
	failures int // failing runs of objects that were healthy under the revision before
}

// objectCounts counts objects that ran under both revisions.
type objectCounts struct{ compared, worse, better int }

func (c objectCounts) plus(other objectCounts, sign int) objectCounts {
	return objectCounts{c.compared + sign*other.compared, c.worse + sign*other.worse, c.better + sign*other.better}
}

// What it takes for a revision to fail; RATIONALE.md gives the reasons.
const (
	minWorse    = 3 // objects, or half of those compared if these are fewer than five
	minFailures = 3 // failing runs
)

// exceeds reports whether the new revision fails more than the one before. In a
// plugin whose objects fail now and then, some are worse and about as many are
// better at any time.
func (s score) exceeds() bool {
	return s.failures >= minFailures && s.worse >= min(minWorse, (s.compared+1)/2) && s.worse > 2*s.better
}

// healthy reports whether objects were compared and none failed.
func (s score) healthy() bool { return s.compared > 0 && s.failures == 0 && s.worse == 0 }

// runHealth is how the last run of an object ended, as far as the plugin decides
// it.
type runHealth uint8

const (
	unknown runHealth = iota // no run yet, or the host or the API server was the reason
	healthy                  // includes stalled and waiting: the plugin has decided
	retried                  // the plugin asked for a retry, once: that may be temporary
	failing                  // the plugin broke, or asked for a retry twice in a row
)

func (h runHealth) bad() bool { return h == retried || h == failing }

// then returns the health after another run.
func (h runHealth) then(next runHealth) runHealth {
	switch {
	case next == unknown:
		return h
	case next == retried && h.bad():
		return failing
	default:
		return next
	}
}

// runHistory is how runs of an object ended under two revisions of its plugin, as far as the
// comparison of the two and the circuit breaker ask for it.
type runHistory struct {
	beforeInput, nowInput input // what the last runs of before and of now were given

	before runHealth // under the last revision that was healthy when it was replaced
	now    runHealth // under the running revision

	standing standing // for the breaker of the running revision
}

// input distinguishes an object from its former states for which a guest may
// rightly return something else: its generation, or the complement of that if it is
// being deleted.
type input int64

func inputOf(o *object.Object) input {
	if o.Deleting() {
		return input(^o.Generation)
	}
	return input(o.Generation)
}

// add records a run and returns the health that it counts as. With onProbation
// the run is compared with those before: a retry then does not count if the
// object was edited since, or is being cleaned up now, since the revision before
// might have asked for it too.
func (h *runHistory) add(next runHealth, in input, onProbation bool) runHealth {
	if onProbation && next == retried && h.before != unknown && in != h.beforeInput {
		next = unknown
	}
	if next != unknown {
		h.nowInput = in
	}
	h.now = h.now.then(next)
	return next
}

// startRevision prepares for another revision. If the replaced revision was
// healthy, the next one is compared with it, else with the one before it.
func (h *runHistory) startRevision(wasHealthy bool) {
	if wasHealthy && h.now != unknown {
		h.before, h.beforeInput = h.now, h.nowInput
	}
	h.now, h.standing = unknown, notRun
}

// compare compares the two revisions for this object. An object that was retried
// counts as compared, so that few worse ones are not too easily enough.
func (h runHistory) compare() objectCounts {
	switch {
	case h.before == unknown || h.now == unknown:
		return objectCounts{}
	case h.now == failing && !h.before.bad():
		return objectCounts{compared: 1, worse: 1}
	case h.now == healthy && h.before.bad():
		return objectCounts{compared: 1, better: 1}
	default:
		return objectCounts{compared: 1}
	}
}

// compareRevisions adds the run to the history of its object and to the
// comparison of revisions, if there is one.
func (r *run) compareRevisions() {
	history, comparison := &r.state.history, r.revision.Comparison
	before := *history
	counted := history.add(r.health(), inputOf(r.given), comparison != nil)
	if comparison != nil && counted != unknown {
		comparison.record(before, *history, r)
	}
}

// health returns how the run ended, as far as the plugin decides it.
func (r *run) health() runHealth {
	class := r.decision.Class
	switch {
	case r.decision.Uncounted:
		return unknown
	case outcome.PluginFault(class):
		return failing
	case r.fault != nil: // a failure of the host
		return unknown
	case len(r.failures) > 0:
		return r.effectHealth()
	case class == abi.ClassRetry:
		return retried
	default:
		return healthy
	}
}

// effectHealth is the health of a run whose effects failed: what the API server
// refuses because of its content is a mistake of the plugin.
func (r *run) effectHealth() runHealth {
	if slices.ContainsFunc(r.failures, effect.RefusesContent) {
		return retried
	}
	return unknown
}
