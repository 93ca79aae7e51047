package queue

import (
	"strings"
	"sync"
	"time"
	"unique"

	"k8s.io/client-go/util/workqueue"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
)

// Key names a primary of the controller.
type Key = object.Key

// Item is a key that is to be reconciled now.
type Item struct {
	Key                     // with strings of its own
	Reasons    []abi.Reason // why, in the order of their arrival, without duplicates; best effort
	ResetTries bool         // earlier failures of the key no longer count
}

// Config configures a [Queue]. The zero value is a queue without metrics.
type Config struct {
	// Name is the label "name" of the metrics; empty for none.
	Name string
	// MetricsProvider makes the workqueue_* metrics. If it is nil, the provider
	// of workqueue.SetProvider is used, and retries are not counted.
	MetricsProvider workqueue.MetricsProvider
	// Idle, if it is set, reports whether nothing is to be added: another replica of the host
	// reconciles the keys. Whoever ends that adds all of them.
	Idle func() bool
}

// Queue hands keys to workers. It is safe for concurrent use.
//
// Locks are taken in this order: mu, then the lock of the workqueue, under which
// the workqueue calls the methods of [priorityQueue].
type Queue struct {
	idle    func() bool
	work    *workqueue.Typed[*entry]
	retries workqueue.CounterMetric // nil without metrics
	depth   workqueue.GaugeMetric   // likewise

	mu        sync.Mutex
	keys      map[Key]*entry // every key that is running or waits for something
	most      int            // keys that there have been since shrink
	deadlines deadlines
	groups    map[string]*group // of keys that are held
	stopped   bool

	rescheduled   chan struct{} // capacity 1: the earliest wake time has changed
	stop          chan struct{} // closed when the queue shuts down
	deadlinesDone chan struct{} // closed when runDeadlines has returned
}

// New starts a queue. [Queue.ShutDown] ends its goroutines.
func New(config Config) *Queue {
	q := &Queue{
		idle: config.Idle,
		work: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[*entry]{
			Name: config.Name, MetricsProvider: config.MetricsProvider, Queue: &priorityQueue[*entry]{},
		}),
		keys:          map[Key]*entry{},
		groups:        map[string]*group{},
		rescheduled:   make(chan struct{}, 1),
		stop:          make(chan struct{}),
		deadlinesDone: make(chan struct{}),
	}
	if config.Name != "" && config.MetricsProvider != nil {
		q.retries = config.MetricsProvider.NewRetriesMetric(config.Name)
		q.depth = config.MetricsProvider.NewDepthMetric(config.Name)
	}
	go q.runDeadlines()
	return q
}

// Add makes a key due for a cause; see [Cause]. Add never blocks. After ShutDown it does nothing.
func (q *Queue) Add(key Key, why Cause) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped || q.idle != nil && q.idle() {
		return
	}
	e, r := q.entry(key), why.rule()
	switch {
	case (r.obeysBackoff || r.own) && e.backingOff():
		return
	case r.obeysBackoff && e.running && !e.due:
		e.deferReason(why.Reason)
		return
	}
	e.addReason(why.Reason, r)
	switch now := time.Now(); {
	case r.own && e.running:
		e.delayOwn(now.Add(r.delay))
	case r.delay > 0:
		e.delay(now.Add(r.delay))
	case r.spread > 0 && !e.backingOff():
		e.spreadTo(now.Add(r.spread))
	default:
		q.makeDue(e, e.laneFor(r))
		return
	}
	q.update(e)
}

// Next blocks until a key is due and returns it. The caller must call
// [Queue.Done], [Queue.PutBack] or [Queue.Hold] for it. shutdown is true when the queue was
// shut down: no key is returned then.
func (q *Queue) Next() (item Item, shutdown bool) {
	for {
		e, shutdown := q.work.Get()
		if shutdown {
			return Item{}, true
		}
		if item, ok := q.start(e); ok {
			return item, false
		}
		q.work.Done(e)
	}
}

// start starts the run of a key that the workqueue returned. ok is false if the
// key is not due, or held: that happens when its lane was raised between its removal
// from the workqueue and this call, which added it a second time.
func (q *Queue) start(e *entry) (item Item, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !e.due || e.held != nil || q.stopped {
		return Item{}, false
	}
	item = Item{Key: e.key, Reasons: e.reasons, ResetTries: e.resetTries}
	e.start()
	q.update(e)
	return item, true
}

// Done ends the run of a key, and sets or clears its deadline and its latest
// time. For a key that is not running it does nothing.
func (q *Queue) Done(key Key, next outcome.Next) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys[key]
	if e == nil || !e.running {
		return
	}
	now := time.Now()
	if e.forgotten {
		next = outcome.Next{}
	}
	deferred := e.deferred
	e.end(next, now)
	if e.backingOff() {
		deferred = nil
		if q.retries != nil {
			q.retries.Inc()
		}
	}
	for _, reason := range deferred {
		e.addReason(reason, ruleOf(reason))
		q.makeDue(e, min(ruleOf(reason).lane, repeated))
	}
	q.expire(e, now)
	q.work.Done(e)
	q.update(e)
}

// PutBack undoes [Queue.Next] for a key that was not run: it is due as before,
// at the front of the keys of its lane. Done must not be called for it.
func (q *Queue) PutBack(item Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys[item.Key]
	if e == nil || !e.running {
		return
	}
	q.makeDue(e, e.putBack(item))
	q.work.Done(e)
	q.update(e)
}

// Forget drops the deadline and the latest time of a key whose object was deleted, and those
// that a run in progress would set. Pending reasons stay: one of them may be that
// the object was created again.
func (q *Queue) Forget(key Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys[key]
	if e == nil {
		return
	}
	e.deadline, e.latest, e.forgotten = time.Time{}, time.Time{}, e.running
	q.update(e)
}

// Len returns the number of keys that are due and not running, with those that are held.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.work.Len()
	for _, g := range q.groups {
		n += g.Len()
	}
	return n
}

// ShutDown makes Next return no key any more: a restart lists every object
// anyway. Done, PutBack and Hold may still be called for keys that are running.
func (q *Queue) ShutDown() {
	q.mu.Lock()
	if !q.stopped {
		q.stopped = true
		close(q.stop)
	}
	q.mu.Unlock()
	<-q.deadlinesDone
	q.work.ShutDown()
}

// entry returns the state of a key. The key is cloned: its strings may alias
// the bytes of a whole object, which a waiting key must not keep in memory. Keys of
// a namespace share its name.
func (q *Queue) entry(key Key) *entry {
	e := q.keys[key]
	if e == nil {
		e = &entry{key: Key{Namespace: unique.Make(key.Namespace).Value(), Name: strings.Clone(key.Name)}, slot: -1}
		q.keys[e.key] = e
		q.most = max(q.most, len(q.keys))
	}
	return e
}

// makeDue adds a key to the workqueue, or raises its lane there or in its group. Every key
// passes here on its way to a worker. q.mu is held.
func (q *Queue) makeDue(e *entry, l lane) {
	if e.due && l <= e.lane() {
		return
	}
	e.setLane(l)
	if e.held != nil {
		q.groups[e.held.group].Touch(e.held)
		return
	}
	e.due = true
	q.work.Add(e) // calls priorityQueue.Touch if it is there already
}
