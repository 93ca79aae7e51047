package schedule

import (
	"context"
	"slices"
	"sync"
	"time"
)

// DefaultQuantum is how long a call keeps its slot while others wait.
const DefaultQuantum = 2 * time.Millisecond

// credit is how many quanta a plugin may use ahead of the one that has used
// most. Without an end to it a plugin that was quiet for an hour could keep
// its neighbours waiting for an hour.
const credit = 10

// Config is what a [Scheduler] is made of.
type Config struct {
	Slots   int           // calls at once; at least 1
	Quantum time.Duration // 0 is [DefaultQuantum]
}

// Scheduler hands out slots. It is safe for concurrent use.
type Scheduler struct {
	slots   int
	quantum time.Duration

	mu      sync.Mutex
	holders []*Turn       // those with a slot, at most slots
	long    int           // holders that are long
	line    []*Plugin     // those with waiting turns, the one least recently served first
	waiting int           // turns in line
	most    time.Duration // that a plugin has used
	watched bool          // [Scheduler.retake] is to come

	heaviest *Plugin
	last     *Plugin   // that has begun a call
	switched time.Time // when that became another one
}

// Metrics is told what the calls of one plugin meet.
type Metrics interface {
	Waited(d time.Duration) // by one call in all, to begin and to go on; 0 too
	HandedOver()            // a slot, at a tick
}

// Plugin is a plugin's place in line. Its fields are guarded by the
// scheduler's lock.
type Plugin struct {
	scheduler *Scheduler
	metrics   Metrics
	waiting   []*Turn       // in the order in which they queued
	used      time.Duration // slot time
	load      time.Duration // slot time too, of late: see heavy.go
	loaded    time.Time     // when load was that
}

// Stats are a scheduler's numbers now.
type Stats struct {
	Slots   int // that there are
	InUse   int // of them
	Waiting int // calls, to begin or to go on
}

// New returns a scheduler whose slots are free.
func New(c Config) *Scheduler {
	if c.Quantum == 0 {
		c.Quantum = DefaultQuantum
	}
	c.Slots = max(1, c.Slots)
	return &Scheduler{slots: c.Slots, quantum: c.Quantum}
}

// Plugin returns a new place in line. It needs no end: nothing is kept of one
// without calls.
func (s *Scheduler) Plugin(m Metrics) *Plugin { return &Plugin{scheduler: s, metrics: m} }

// Stats reads the numbers.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Slots: s.slots, InUse: len(s.holders), Waiting: s.waiting}
}

// Acquire waits for a slot until ctx ends; then it answers ctx's cause. Every
// turn must be released.
func (p *Plugin) Acquire(ctx context.Context) (*Turn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t := &Turn{plugin: p, since: time.Now()}
	if p.scheduler.begin(t) {
		return t, nil
	}
	if err := t.wait(ctx); err != nil {
		p.metrics.Waited(t.waited)
		return nil, err
	}
	return t, nil
}

// begin gives a new turn a slot at once, or queues it.
func (s *Scheduler) begin(t *Turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began(t.plugin, t.since)
	// Nobody waits for a slot that is free but may not be taken by all.
	if len(s.holders) < s.slots && !s.heavy(t.plugin, t.since) {
		s.give(t, t.since)
		return true
	}
	s.queue(t)
	return s.settled(t, t.since)
}

// settled settles for a turn that was just queued: it says whether the turn
// has a slot at once.
func (s *Scheduler) settled(t *Turn, now time.Time) bool {
	s.settle(now)
	if t.held {
		<-t.granted
	}
	return t.held
}

// give makes t a holder.
func (s *Scheduler) give(t *Turn, now time.Time) {
	t.held = true
	t.long = t.long || s.heavy(t.plugin, now)
	s.holders = append(s.holders, t)
	if t.long {
		s.long++
	}
}

// take is the opposite of give. What t has used by now is on its plugin's
// account.
func (s *Scheduler) take(t *Turn, now time.Time) {
	s.charge(t.plugin, now.Sub(t.since), now)
	t.held = false
	last := len(s.holders) - 1
	s.holders[slices.Index(s.holders, t)] = s.holders[last]
	s.holders[last] = nil
	s.holders = s.holders[:last]
	if t.long {
		s.long--
	}
}

// queue puts t behind the other turns of its plugin.
func (s *Scheduler) queue(t *Turn) {
	p := t.plugin
	if len(p.waiting) == 0 {
		s.line = append(s.line, p)
	}
	p.waiting = append(p.waiting, t)
	s.waiting++
	if t.granted == nil {
		t.granted = make(chan struct{}, 1)
	}
}

// unqueue takes t out of the line; at is its place among its plugin's.
func (s *Scheduler) unqueue(t *Turn, at int) {
	p := t.plugin
	p.waiting = slices.Delete(p.waiting, at, at+1)
	if len(p.waiting) == 0 {
		s.line = slices.DeleteFunc(s.line, func(q *Plugin) bool { return q == p })
	}
	s.waiting--
}

// settle gives the free slots to those whose turn it is. It comes after every
// change, before the lock is given back.
func (s *Scheduler) settle(now time.Time) {
	for len(s.holders) < s.slots {
		t, at := s.next(now)
		if t == nil {
			break
		}
		s.unqueue(t, at)
		s.behind(t.plugin)
		s.give(t, now)
		t.granted <- struct{}{} // has room: a turn is given one slot at a time
	}
	s.watch()
}

// next is the turn that gets the next slot, with its place among its
// plugin's; nil if nobody may have one.
func (s *Scheduler) next(now time.Time) (next *Turn, at int) {
	var least time.Duration
	long := s.long < s.mostLong(now)
	for _, p := range s.line {
		i := p.first(long, long || !s.heavy(p, now))
		if used := s.account(p); i >= 0 && (next == nil || used < least) {
			next, at, least = p.waiting[i], i, used
		}
	}
	return next, at
}

// first is the place of the turn that p would have served next, -1 if none
// may be, given whether its long ones and its short ones may.
func (p *Plugin) first(long, short bool) int {
	return slices.IndexFunc(p.waiting, func(t *Turn) bool { return long || short && !t.long })
}

// behind moves p to the end of the line if it is there.
func (s *Scheduler) behind(p *Plugin) {
	if i := slices.Index(s.line, p); i >= 0 {
		s.line = append(slices.Delete(s.line, i, i+1), p)
	}
}
