package cache

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/thole-dev/thole/host/cache/objects"
	"github.com/thole-dev/thole/host/object"
)

// Event is one change of one object: Old is nil for a creation, New for a
// deletion. After an update both have the same UID.
type Event struct {
	Old, New *object.Object
	// Initial is set for objects that existed when the informer read the kind for the
	// first time.
	Initial bool
	// Lost is set for a deletion that nothing shows: a list of an earlier state of the API server
	// lacks the object, or the kind is not served any more.
	Lost bool
}

// Object returns the latest state in the event: New, or Old for a deletion.
func (e Event) Object() *object.Object { return cmp.Or(e.New, e.Old) }

// handler receives the events of an informer.
type handler struct {
	event  func(Event)
	synced func() // called after the events of the initial list; may be nil
	// existing is called for objects that exist when the handler is added. It may be nil.
	existing func(*objects.Entry)
	removed  atomic.Bool
}

// feed is the queue of events between the store and the handlers. Events are
// pushed under the lock of the store, which makes their order that of the
// changes, and are delivered by one goroutine that holds no lock. The queue is
// unbounded, because the reflector must not wait for a handler.
type feed struct {
	mu       sync.Mutex
	handlers []*handler // copied on write, because batches alias it
	batches  []batch
	signal   chan struct{} // capacity 1: receives when batches may be non-empty
}

// batch is delivered to the handlers that existed when it was pushed.
type batch struct {
	to       []*handler
	existing iter.Seq[*objects.Entry] // delivered before changes; may be nil
	changes  []change
	synced   bool // the initial list has ended
}

// change becomes an event when it is delivered: its objects may be packed, and to read
// them takes time and memory.
type change struct {
	old, updated *objects.Entry // either may be nil
	initial      bool
	lost         bool
}

func (c change) event() Event {
	return Event{Old: c.old.Object(), New: c.updated.Object(), Initial: c.initial, Lost: c.lost}
}

func newFeed() *feed { return &feed{signal: make(chan struct{}, 1)} }

// size returns the number of handlers.
func (f *feed) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.handlers)
}

// push queues a batch for all handlers.
func (f *feed) push(b batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b.to = f.handlers
	f.append(b)
}

// add adds a handler, and queues the initial batch for this handler alone.
func (f *feed) add(h *handler, initial batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	initial.to = []*handler{h}
	f.append(initial)
	f.handlers = append(slices.Clone(f.handlers), h)
}

// append queues a batch that has something in it for somebody.
func (f *feed) append(b batch) {
	if len(b.to) == 0 || b.existing == nil && len(b.changes) == 0 && !b.synced {
		return
	}
	f.batches = append(f.batches, b)
	select {
	case f.signal <- struct{}{}:
	default:
	}
}

// remove removes a handler. A call of it that has begun may still run when
// remove returns.
func (f *feed) remove(h *handler) {
	h.removed.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers = slices.DeleteFunc(slices.Clone(f.handlers), func(other *handler) bool { return other == h })
}

// run delivers events until ctx is done.
func (f *feed) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.signal:
		}
		for _, b := range f.take() {
			if ctx.Err() != nil {
				return
			}
			b.deliver()
		}
	}
}

func (f *feed) take() []batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	batches := f.batches
	f.batches = nil
	return batches
}

func (b batch) deliver() {
	if b.existing != nil {
		b.sendExisting()
	}
	for _, c := range b.changes {
		b.send(c.event())
	}
	for _, h := range b.to {
		if b.synced && h.synced != nil && !h.removed.Load() {
			h.synced()
		}
	}
}

func (b batch) sendExisting() {
	for e := range b.existing {
		for _, h := range b.to {
			if !h.removed.Load() {
				h.existing(e)
			}
		}
	}
}

func (b batch) send(e Event) {
	for _, h := range b.to {
		if !h.removed.Load() {
			h.event(e)
		}
	}
}
