package queue

import (
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Key names a primary of the controller.
type Key = object.Key

// Item is a key that was handed out: a run that is due.
type Item struct {
	Key
	Reasons []abi.Reason // why, in the order of their coming, each once; best effort
	Reset   bool         // the tries before do not count any more
}

// Next is when a key runs again without a trigger.
type Next struct {
	After   time.Duration // from now; 0 or less: only by a trigger
	Backoff bool          // the run failed: a resync does not shorten this
	Yields  bool          // the key then comes in the background
	Reason  abi.Reason    // what the run is told; empty: retry with Backoff, else requeue
}

// Config is what a [Queue] needs. The zero value is a queue without metrics.
type Config struct {
	// Name is the label "name" of the metrics; empty for none.
	Name string
	// MetricsProvider makes the workqueue_* metrics; nil takes the one that
	// client-go was given by workqueue.SetProvider, and counts no retries.
	MetricsProvider workqueue.MetricsProvider
}

// Queue hands out keys to workers. It is safe for concurrent use.
//
// Locks are taken in this order: mu, then the one inside work, under which
// work calls the methods of lanes.
type Queue struct {
	work    *workqueue.Typed[*entry]
	retries workqueue.CounterMetric // nil without metrics

	mu      sync.Mutex
	keys    map[Key]*entry // of every key that runs or waits for something
	timers  timers
	stopped bool

	poke chan struct{} // the earliest timer has changed
	stop chan struct{} // closed by ShutDown
	done chan struct{} // closed when keepTime has ended
}

// New starts a queue. [Queue.ShutDown] ends its goroutines.
func New(config Config) *Queue {
	q := &Queue{
		work: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[*entry]{
			Name: config.Name, MetricsProvider: config.MetricsProvider, Queue: &lanes{},
		}),
		keys: map[Key]*entry{},
		poke: make(chan struct{}, 1),
		stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	if config.Name != "" && config.MetricsProvider != nil {
		q.retries = config.MetricsProvider.NewRetriesMetric(config.Name)
	}
	go q.keepTime()
	return q
}

// Trigger says that a key has a reason to run; the package comment says when
// that will be. It never blocks.
func (q *Queue) Trigger(key Key, reason abi.Reason) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	e, r := q.entry(key), ruleOf(reason)
	switch {
	case r.patient && e.backingOff():
		return
	case r.patient && e.running && !e.queued:
		e.hold(reason) // Settle knows whether the run ended in backoff
		return
	}
	e.note(reason, r)
	if r.debounced {
		e.debounce(time.Now())
		q.schedule(e)
		return
	}
	q.admit(e, r.levelFor(e))
}

// Next waits for a key that is due and hands it out; the caller must settle
// it. shutdown says that there will be none any more.
func (q *Queue) Next() (item Item, shutdown bool) {
	for {
		e, shutdown := q.work.Get()
		if shutdown {
			return Item{}, true
		}
		if item, due := q.handOut(e); due {
			return item, false
		}
		q.work.Done(e)
	}
}

// handOut starts the run of a key that came out of work. A key can come out
// without being due: its level was raised just after it had been taken.
func (q *Queue) handOut(e *entry) (item Item, due bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !e.queued || q.stopped {
		return Item{}, false
	}
	item = Item{Key: e.key, Reasons: e.reasons, Reset: e.reset}
	e.start()
	q.schedule(e)
	return item, true
}

// Settle ends the run of a key that was handed out, and sets or clears its
// deadline. Settling a key that does not run does nothing.
func (q *Queue) Settle(key Key, next Next) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys[key]
	if e == nil || !e.running {
		return
	}
	now := time.Now()
	if e.forgotten {
		next = Next{}
	}
	held := e.held
	e.end(next, now)
	if e.backingOff() {
		q.countRetry()
		held = nil
	}
	for _, reason := range held {
		e.note(reason, ruleOf(reason))
		q.admit(e, ruleOf(reason).level)
	}
	q.fire(e, now)
	q.work.Done(e)
	q.schedule(e)
}

// Return puts a key back that was handed out and did not run: it is due as
// before, at the head of its lane. Settle is not called for it then.
func (q *Queue) Return(item Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys[item.Key]
	if e == nil || !e.running {
		return
	}
	held, level := e.held, e.taken
	e.putBack(item)
	for _, reason := range held {
		e.note(reason, ruleOf(reason))
		level = max(level, ruleOf(reason).level)
	}
	q.admit(e, level)
	q.work.Done(e)
	q.schedule(e)
}

func (q *Queue) countRetry() {
	if q.retries != nil {
		q.retries.Inc()
	}
}

// Forget says that the object of a key is gone: its deadline is dropped, also
// the one that a run in progress would set. Triggers stay, since one of them
// may be the object's return.
func (q *Queue) Forget(key Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys[key]
	if e == nil {
		return
	}
	e.deadline, e.forgotten = time.Time{}, e.running
	q.schedule(e)
}

// Len returns how many keys are due and not yet handed out.
func (q *Queue) Len() int { return q.work.Len() }

// ShutDown lets Next hand out nothing any more: a restart lists every object
// anyway. Runs in progress go on and may be settled.
func (q *Queue) ShutDown() {
	q.halt()
	q.work.ShutDown()
}

// ShutDownWithDrain is ShutDown, and waits until every key that was handed out
// is settled. A ShutDown meanwhile ends the waiting.
func (q *Queue) ShutDownWithDrain() {
	q.halt()
	q.work.ShutDownWithDrain()
}

// halt stops triggers and timers, once.
func (q *Queue) halt() {
	q.mu.Lock()
	if !q.stopped {
		q.stopped = true
		close(q.stop)
	}
	q.mu.Unlock()
	<-q.done
}

// entry returns the state of a key. The key's strings may alias the bytes of
// a whole object, which a waiting key must not keep alive.
func (q *Queue) entry(key Key) *entry {
	e := q.keys[key]
	if e == nil {
		e = &entry{key: Key{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)}, place: -1}
		q.keys[e.key] = e
	}
	return e
}

// admit makes a key due. Every key passes here on its way to the workers, so
// this is where one could be held back.
func (q *Queue) admit(e *entry, l level) {
	if e.queued && l <= e.level() {
		return
	}
	e.setLevel(l)
	e.queued = true
	q.work.Add(e) // calls Touch if the key is there already, so that its lane changes
}
