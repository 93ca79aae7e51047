package cloudevents

import (
	"hash/maphash"
	"sync"
)

// Bounds of the buffer of one sink. The size of an event in it is that of its JSON.
const (
	maxEvents = 30_000 // a minute of 100 changes a second, each with its status and its run, and the last pause
	maxBytes  = 16 << 20
	laneCount = 4 // requests at once
)

// buffer has the events that wait for a sink, in lanes: the events of one object are in one lane, in
// their order. An event leaves its lane when the sink has taken or refused it.
type buffer struct {
	seed     maphash.Seed
	buffered func(n int) // is called when the number of events has changed, with mu held

	mu     sync.Mutex
	lanes  [laneCount]lane
	events int
	bytes  int
	closed bool // no event comes any more
	// changed is closed, and replaced, when an event has left or the buffer is closed; nil: nobody waits.
	changed chan struct{}
}

// lane is a queue of events that one goroutine sends.
type lane struct {
	queue [][]byte
	added chan struct{} // capacity 1: receives when queue may be non-empty, or the buffer is closed
	alone int           // how many of the first are sent one by one, as the sink has refused them together
}

func newBuffer(buffered func(n int)) *buffer {
	b := &buffer{seed: maphash.MakeSeed(), buffered: buffered}
	for i := range b.lanes {
		b.lanes[i].added = make(chan struct{}, 1)
	}
	return b
}

// add adds an event, and reports whether there was room for it.
func (b *buffer) add(e encoded) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.events >= maxEvents || b.bytes+len(e.json) > maxBytes {
		return false
	}
	l := &b.lanes[maphash.String(b.seed, e.object)%laneCount]
	l.queue = append(l.queue, e.json)
	b.events++
	b.bytes += len(e.json)
	b.buffered(b.events)
	l.wake()
	return true
}

func (l *lane) wake() {
	select {
	case l.added <- struct{}{}:
	default:
	}
}

// first returns the first events of a lane, which stay in it: most at most, of that many bytes unless
// it is one. closed is set if no more events come.
func (b *buffer) first(l *lane, most, bytes int) (events [][]byte, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.alone > 0 {
		most = 1
	}
	for _, e := range l.queue[:min(most, len(l.queue))] {
		if bytes -= len(e); bytes < 0 && len(events) > 0 {
			break
		}
		events = append(events, e)
	}
	return events, b.closed
}

// remove removes the first events of a lane.
func (b *buffer) remove(l *lane, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, e := range l.queue[:n] {
		b.bytes -= len(e)
		l.queue[i] = nil
	}
	b.events -= n
	b.buffered(b.events)
	l.alone = max(l.alone-n, 0)
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil // with the array, which may be large after an outage
	}
	b.notify()
}

// separate makes the first events of a lane be sent one by one.
func (b *buffer) separate(l *lane, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.alone = n
}

// len returns how many events there are.
func (b *buffer) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.events
}

// close makes the buffer take no more events.
func (b *buffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for i := range b.lanes {
		b.lanes[i].wake()
	}
	b.notify()
}

// room returns nil if at least half of the buffer is free, otherwise a channel that is closed when it may be. The
// other half is for changes, which do not wait. open is false when the buffer is closed.
func (b *buffer) room() (freed <-chan struct{}, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.events <= maxEvents/2 && b.bytes <= maxBytes/2 {
		return nil, !b.closed
	}
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed, true
}

// notify wakes who waits for room. mu is held.
func (b *buffer) notify() {
	if b.changed != nil && (b.closed || b.events <= maxEvents/2 && b.bytes <= maxBytes/2) {
		close(b.changed)
		b.changed = nil
	}
}
