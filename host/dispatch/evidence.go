package dispatch

import (
	"container/list"
	"fmt"
	"math"
	"time"

	"github.com/thole-dev/thole/host/object"
)

// Bounds of what opens a breaker; RATIONALE.md says where they come from.
const (
	recentObjects = 100              // objects that count, by their last run
	leastFailing  = 10               // of them must have failed,
	failingShare  = 0.8              // and at least this share
	burntLimit    = 30 * time.Second // guest time of failing calls, as it fades,
	leastBurning  = 5                // of at least so many objects
	burntHalfLife = 30 * time.Second // guest time counts half after this
)

// subject is an object of one of the plugin's controllers.
type subject struct {
	controller string
	key        object.Key
}

// evidence is how a plugin did lately: the last run of each of the objects
// that ran last, and the guest time of failing and of all calls, which fades.
// An object counts once, however often it is tried again.
type evidence struct {
	recent  *list.List // of *sighting, the latest first
	bySubj  map[subject]*list.Element
	failing int // of recent

	at           time.Time // of burnt and spent
	burnt, spent time.Duration
}

type sighting struct {
	subject
	failed bool
}

func newEvidence() evidence {
	return evidence{recent: list.New(), bySubj: map[subject]*list.Element{}}
}

// add takes a run that the plugin ended or failed.
func (e *evidence) add(now time.Time, s subject, failed bool, took time.Duration) {
	e.fade(now)
	e.spent += took
	if failed {
		e.burnt += took
	}
	seen := e.see(s)
	if seen.failed {
		e.failing--
	}
	if seen.failed = failed; failed {
		e.failing++
	}
}

// see makes an object the latest, in the place of the one that was seen least
// lately if there are too many.
func (e *evidence) see(s subject) *sighting {
	at := e.bySubj[s]
	switch {
	case at != nil:
	case e.recent.Len() < recentObjects:
		at = e.recent.PushFront(&sighting{subject: s})
		e.bySubj[s] = at
	default:
		at = e.recent.Back()
		delete(e.bySubj, at.Value.(*sighting).subject)
		at.Value.(*sighting).subject = s
		e.bySubj[s] = at
	}
	e.recent.MoveToFront(at)
	return at.Value.(*sighting)
}

func (e *evidence) fade(now time.Time) {
	left := math.Exp2(-float64(now.Sub(e.at)) / float64(burntHalfLife))
	e.burnt = time.Duration(float64(e.burnt) * left)
	e.spent = time.Duration(float64(e.spent) * left)
	e.at = now
}

// damning says why the plugin, and not some of its objects, is to blame; ""
// if it is not.
func (e *evidence) damning() string {
	seen := e.recent.Len()
	switch {
	case e.failing >= leastFailing && float64(e.failing) >= failingShare*float64(seen):
		return fmt.Sprintf("%d of the last %d objects failed through the plugin itself", e.failing, seen)
	case e.failing >= leastBurning && e.burnt >= burntLimit && float64(e.burnt) >= failingShare*float64(e.spent):
		return fmt.Sprintf("failing calls of %d objects took %s of the last %s in the plugin", e.failing, e.burnt.Round(time.Second), e.spent.Round(time.Second))
	default:
		return ""
	}
}
