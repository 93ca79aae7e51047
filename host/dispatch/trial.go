package dispatch

import (
	"fmt"
	"sync"
	"time"
)

// Trial is the probation of a new generation, shared by the plugin's
// controllers: it compares how objects fare with how they fared under the
// generation before. A nil *Trial is over and passed. It is safe for
// concurrent use.
type Trial struct {
	ends time.Time
	lost func(reason string)

	mu      sync.Mutex
	score   score
	isLost  bool
	failure string // the last one
}

// NewTrial begins a probation until a time. lost is told once if the new
// generation does worse; it may not call the trial.
func NewTrial(ends time.Time, lost func(reason string)) *Trial {
	return &Trial{ends: ends, lost: lost}
}

// Sound says whether the generation is one to go back to, and to compare
// another with: it has run for objects and failed for none that did not fail
// before, or its time is over. A nil *Trial is.
func (t *Trial) Sound() bool {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.isLost && (t.score.sound() || !time.Now().Before(t.ends))
}

// trial notes how the run's object fares now.
func (r *run) trial() {
	s, t := &r.state.fared, r.generation.Trial
	before := *s
	counts := s.ran(r.fate(), input{r.given.Generation, r.given.Deleting()}, t != nil)
	if t != nil && counts != unknown {
		t.note(before, *s, r)
	}
}

// comparison counts objects that ran under both generations.
type comparison struct{ compared, worse, better int }

func (c comparison) add(other comparison, sign int) comparison {
	return comparison{c.compared + sign*other.compared, c.worse + sign*other.worse, c.better + sign*other.better}
}

// Bounds of a verdict.
const (
	leastWorse    = 3 // objects, or half of those compared if they are fewer than five,
	leastFailures = 3 // failing runs
)

// score adds up a trial.
type score struct {
	comparison
	failures int // runs of objects that were well before
}

// damning says whether the new generation fails more than the one before. A
// plugin whose objects fail now and then has some that are worse and about as
// many that are better at any time.
func (s score) damning() bool {
	return s.failures >= leastFailures && s.worse >= min(leastWorse, (s.compared+1)/2) && s.worse > 2*s.better
}

// sound says that nothing speaks against the new generation, and something for
// it.
func (s score) sound() bool { return s.compared > 0 && s.failures == 0 && s.worse == 0 }

// note takes a run that says how an object fares.
func (t *Trial) note(before, after fared, r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isLost || !time.Now().Before(t.ends) {
		return
	}
	t.score.comparison = t.score.add(before.compare(), -1).add(after.compare(), 1)
	if after.before == well && after.now.bad() {
		t.score.failures++
		t.failure = fmt.Sprintf("%s: %s", r.due.Key, r.decision.Class)
	}
	if t.score.damning() {
		t.isLost = true
		t.lost(fmt.Sprintf("%d of %d objects fail that did not fail before; the last: %s", t.score.worse, t.score.compared, t.failure))
	}
}
