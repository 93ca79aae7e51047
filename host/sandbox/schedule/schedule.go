// Package schedule shares the host's execution slots among plugins: how many
// guest calls run at once, which call gets the next free slot, and when a
// running call hands its slot over. It does not depend on the engine.
//
// A call begins with [Plugin.Acquire], calls [Task.Yield] every now and then,
// marks the host functions in which it may block with [Task.Block] and
// [Task.Unblock], and ends with [Task.Release].
//
// Guarantees:
//   - At most as many calls as there are slots run at once.
//   - A free slot goes to the plugin that has used the least slot time of those
//     that wait; plugins that have used equally much take turns. What a plugin
//     has not used is remembered up to [credit]. Calls of one plugin are served
//     in the order in which they queued.
//   - A call that has had its slot for a quantum hands it over at its next tick
//     if another call is to have it, and queues again.
//   - With two slots or more, long calls hold all but one of them, so that a
//     short call never waits for a long one. Long are calls that have run for a
//     quantum, and all calls of a heavy plugin (load.go). A plugin that is alone
//     may have all slots.
//   - A call that has been in a host function for a quantum does not hold a slot
//     that other calls wait for, and one that waits for something outside of the
//     host holds none.
//   - A call whose context ends stops waiting and holds no slot.
//
// This file has the scheduler, task.go what a call does, load.go how the use of
// slots is accounted.
package schedule

import (
	"context"
	"slices"
	"sync"
	"time"
)

// defaultQuantum is how long a call keeps its slot while others wait.
const defaultQuantum = 2 * time.Millisecond

// Scheduler assigns slots to calls. It is safe for concurrent use.
type Scheduler struct {
	slots   int
	quantum time.Duration // other than the default in tests only

	mu       sync.Mutex
	running  []*Task       // tasks that hold a slot, at most slots
	long     int           // how many of running are long
	queue    []*Plugin     // plugins with waiting tasks, the least recently served first
	waiting  int           // tasks that wait, of all plugins
	mostUsed time.Duration // the slot time of the plugin that has used most
	watching bool          // a timer is set that calls revokeBlocked

	heaviest  *Plugin
	lastBegun *Plugin   // the plugin that began a call last
	changed   time.Time // when lastBegun became another plugin
	assigned  time.Time // when the free slots were given last, for tests
}

// Metrics receives what the calls of one plugin experience.
type Metrics interface {
	// Waited is called once for each call with the time that it waited for
	// slots in all, which may be 0.
	Waited(d time.Duration)
	// HandedOver is called for each slot that a running call hands over at a
	// tick.
	HandedOver()
}

// Plugin is a plugin as the scheduler sees it. Its fields are guarded by the
// scheduler's lock.
type Plugin struct {
	scheduler *Scheduler
	metrics   Metrics
	waiting   []*Task       // in the order in which they queued
	used      time.Duration // slot time since the start
	load      time.Duration // recent slot time, as of loadAsOf (see load.go)
	loadAsOf  time.Time
}

// Stats describes the slots of a scheduler at one time.
type Stats struct {
	Slots   int // all slots
	InUse   int // slots that are held
	Waiting int // calls that wait for a slot, to begin or to continue
}

// New returns a scheduler with that many slots, at least one, all of them free.
func New(slots int) *Scheduler {
	return &Scheduler{slots: max(1, slots), quantum: defaultQuantum}
}

// Plugin adds a plugin. It need not be removed: the scheduler refers to a
// plugin only while it has calls.
func (s *Scheduler) Plugin(m Metrics) *Plugin { return &Plugin{scheduler: s, metrics: m} }

// Stats returns the state of the slots.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Slots: s.slots, InUse: len(s.running), Waiting: s.waiting}
}

// Acquire blocks until the call has a slot, or returns the cause of ctx's end.
// Every task must be released.
func (p *Plugin) Acquire(ctx context.Context) (*Task, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t := &Task{plugin: p, since: time.Now()}
	if p.scheduler.begin(t) {
		return t, nil
	}
	if _, err := t.wait(ctx); err != nil {
		p.metrics.Waited(t.waited)
		return nil, err
	}
	return t, nil
}

// begin gives a new task a slot at once, or queues it. It reports whether the
// task has a slot.
func (s *Scheduler) begin(t *Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteBegin(t.plugin, t.since)
	// A free slot for which other tasks wait is one that only short tasks may
	// have: as many long ones as may run do. A task of a plugin that is not heavy is short.
	if len(s.running) < s.slots && (s.long < s.maxLong(t.since) || !s.heavy(t.plugin, t.since)) {
		s.grant(t, t.since)
		return true
	}
	return s.enqueueAndAssign(t, t.since)
}

// enqueueAndAssign queues a task and assigns the free slots. It reports whether
// the task got one of them.
func (s *Scheduler) enqueueAndAssign(t *Task, now time.Time) bool {
	s.enqueue(t)
	s.assign(now)
	if t.holding {
		<-t.granted
	}
	return t.holding
}

// grant gives t a slot.
func (s *Scheduler) grant(t *Task, now time.Time) {
	t.holding = true
	t.long = t.long || s.heavy(t.plugin, now)
	s.running = append(s.running, t)
	if t.long {
		s.long++
	}
}

// revoke takes t's slot, and charges its plugin for the time since it had it. A task
// that has none, because its context ended while it waited, stays as it is.
func (s *Scheduler) revoke(t *Task, now time.Time) {
	if !t.holding {
		return
	}
	s.charge(t.plugin, now.Sub(t.since), now)
	t.holding = false
	last := len(s.running) - 1
	s.running[slices.Index(s.running, t)] = s.running[last]
	s.running[last] = nil
	s.running = s.running[:last]
	if t.long {
		s.long--
	}
}

// enqueue puts t behind the other waiting tasks of its plugin.
func (s *Scheduler) enqueue(t *Task) {
	p := t.plugin
	if len(p.waiting) == 0 {
		s.queue = append(s.queue, p)
	}
	p.waiting = append(p.waiting, t)
	s.waiting++
	if t.granted == nil {
		t.granted = make(chan struct{}, 1)
	}
}

// dequeue removes the task at that index of its plugin's waiting tasks.
func (s *Scheduler) dequeue(p *Plugin, index int) {
	p.waiting = slices.Delete(p.waiting, index, index+1)
	if len(p.waiting) == 0 {
		s.queue = slices.DeleteFunc(s.queue, func(q *Plugin) bool { return q == p })
	}
	s.waiting--
}

// assign gives the free slots to waiting tasks. It must be called after every
// change, before the lock is released.
func (s *Scheduler) assign(now time.Time) {
	s.assigned = now
	for len(s.running) < s.slots {
		t, index := s.next(now)
		if t == nil {
			break
		}
		s.dequeue(t.plugin, index)
		s.moveToBack(t.plugin)
		s.grant(t, now)
		t.granted <- struct{}{} // has room: a task is granted one slot at a time
	}
	s.watchBlocked()
}

// next returns the task that gets the next slot, with its index among its
// plugin's waiting tasks, or nil if no task may have one.
func (s *Scheduler) next(now time.Time) (next *Task, index int) {
	var least time.Duration
	long := s.long < s.maxLong(now)
	for _, p := range s.queue {
		i := p.nextWaiting(long, long || !s.heavy(p, now))
		if used := s.accountable(p); i >= 0 && (next == nil || used < least) {
			next, index, least = p.waiting[i], i, used
		}
	}
	return next, index
}

// nextWaiting returns the index of the plugin's task to serve next, or -1 if
// there is none, given whether its long tasks and its short ones may be served.
func (p *Plugin) nextWaiting(long, short bool) int {
	return slices.IndexFunc(p.waiting, func(t *Task) bool { return long || short && !t.long })
}

// moveToBack moves p to the end of the queue if it is in it.
func (s *Scheduler) moveToBack(p *Plugin) {
	if i := slices.Index(s.queue, p); i >= 0 {
		s.queue = append(slices.Delete(s.queue, i, i+1), p)
	}
}

// watchBlocked sets the timer for revokeBlocked if tasks wait. It runs only
// then, so that a host function that returns at once costs next to nothing.
func (s *Scheduler) watchBlocked() {
	if s.waiting == 0 || s.watching {
		return
	}
	s.watching = true
	time.AfterFunc(s.quantum, s.revokeBlocked)
}

// revokeBlocked takes the slots of tasks that have been in a host function
// since it ran last.
func (s *Scheduler) revokeBlocked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = false
	now := time.Now()
	for _, t := range slices.Clone(s.running) {
		if t.state.revokeIfBlocked() {
			s.revoke(t, now)
		}
	}
	s.assign(now)
}
