package cloudevents

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/sanitize"
)

// Metrics counts the events of one sink.
type Metrics interface {
	Published(n int)              // taken by the sink
	Dropped(reason string, n int) // for one of [DropReasons]
	Buffered(n int)               // how many wait now
	Failed()                      // a request that has to be sent again
}

// Reasons why events are dropped.
const (
	dropFull    = "full"    // there was no room in the buffer
	dropRefused = "refused" // the sink does not take the event
	dropRemoved = "removed" // the policy has the sink no more
	dropStopped = "stopped" // the plugin has stopped, and the sink did not take it in time
)

// DropReasons returns the reasons, for metrics that exist before the first event.
func DropReasons() []string { return []string{dropFull, dropRefused, dropRemoved, dropStopped} }

// toldEvery is the time between two log lines about the same.
const toldEvery = time.Minute

// report tells what becomes of the events of a sink. A line about the same is logged once a minute.
type report struct {
	Metrics
	log hclog.Logger // with plugin and sink

	mu      sync.Mutex
	told    map[string]time.Time // when there was a line about something
	untold  map[string]int       // what was dropped since, by reason
	failing bool
}

func newReport(log hclog.Logger, metrics Metrics) *report {
	return &report{Metrics: metrics, log: log, told: map[string]time.Time{}, untold: map[string]int{}}
}

// dropped counts events that are lost, and tells that.
func (r *report) dropped(reason string, n int, why string) {
	if n == 0 {
		return
	}
	r.Dropped(reason, n)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.untold[reason] += n; r.mayTell(reason) {
		r.log.Warn("CloudEvents were dropped, and their receivers do not learn what has happened", "reason", reason, "events", r.untold[reason], "why", why)
		r.untold[reason] = 0
	}
}

// failed counts a request that did not reach the sink.
func (r *report) failed(why string, again time.Duration) {
	r.Failed()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing = true; r.mayTell("failed") {
		r.log.Warn("the sink does not take CloudEvents, sending them again", "why", sanitize.Line(sanitize.Truncate(why, maxWhy)), "after", again.Round(time.Millisecond))
	}
}

const maxWhy = 512

// taken counts events that the sink has.
func (r *report) taken(n int) {
	r.Published(n)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing {
		r.failing = false
		r.log.Info("the sink takes CloudEvents again")
	}
}

// mayTell reports whether a line is due. mu is held.
func (r *report) mayTell(about string) bool {
	if at, ok := r.told[about]; ok && time.Since(at) < toldEvery {
		return false
	}
	r.told[about] = time.Now()
	return true
}
