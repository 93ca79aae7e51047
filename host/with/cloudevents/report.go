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
	Dropped(reason string, n int) // for one of the reasons below
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

// Drop is events that were dropped for one reason since the last Drop of a sink for it.
type Drop struct {
	Sink   string // its name
	Reason string // one of the above
	Why    string // of the last one, for people
	Events int
}

// toldEvery is the time between two log lines, or calls of [Config.Dropped], about the same.
const toldEvery = time.Minute

// report reports what becomes of the events of a sink, about the same once a minute.
type report struct {
	Metrics
	sink string
	drop func(Drop)
	log  hclog.Logger // with plugin and sink

	mu      sync.Mutex
	told    map[string]time.Time // when something was reported
	untold  map[string]Drop      // what was dropped since, by reason
	failing bool
}

func newReport(sink string, drop func(Drop), log hclog.Logger, metrics Metrics) *report {
	return &report{Metrics: metrics, sink: sink, drop: drop, log: log, told: map[string]time.Time{}, untold: map[string]Drop{}}
}

// dropped counts events that are lost, and reports that.
func (r *report) dropped(reason string, n int, why string) {
	if n == 0 {
		return
	}
	r.Dropped(reason, n)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.untold[reason] = Drop{r.sink, reason, why, r.untold[reason].Events + n}
	r.tellDrops(false)
}

// tellDrops reports what was dropped and was not reported; last is set if there will be no time later. mu
// is held.
func (r *report) tellDrops(last bool) {
	for reason, d := range r.untold {
		if last || r.mayTell(reason) {
			r.drop(d)
			delete(r.untold, reason)
		}
	}
}

// end reports what is left. It must be called last.
func (r *report) end() {
	r.Buffered(0)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tellDrops(true)
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

// taken counts events that the sink has, and reports what was dropped before if it is time.
func (r *report) taken(n int) {
	r.Published(n)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tellDrops(false)
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
