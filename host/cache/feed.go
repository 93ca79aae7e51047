package cache

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/thole-dev/thole/host/object"
)

// Event is one change of one object: Old is nil for a creation, New for a
// deletion. After an update both have the same UID.
type Event struct {
	Old, New *object.Object
	// Initial marks objects that were there already when the handler was
	// added or when the informer read the kind for the first time.
	Initial bool
}

// Object returns the newest state that the event tells: New, or Old of a
// deletion.
func (e Event) Object() *object.Object {
	if e.New != nil {
		return e.New
	}
	return e.Old
}

// handler is somebody who wants to know.
type handler struct {
	event   func(Event)
	synced  func() // optional: after the events of the initial list
	changes bool   // only changes are wanted: none for what is there when it is added
	removed atomic.Bool
}

// feed carries events from the store to the handlers: pushed under the store's
// lock, so in its order, and handed out by one goroutine that holds no lock.
// It has no bound, since the reflector must not wait for a handler.
type feed struct {
	mu       sync.Mutex
	handlers []*handler // copied on write: batches share it
	batches  []batch
	signal   chan struct{} // has an element when batches may be non-empty
}

// batch is handed to the handlers that there were when it was pushed.
type batch struct {
	to     []*handler
	events []Event
	synced bool // the initial list has ended
}

func newFeed() *feed { return &feed{signal: make(chan struct{}, 1)} }

func (f *feed) push(events ...Event) {
	if len(events) > 0 {
		f.enqueue(batch{events: events})
	}
}

func (f *feed) synced() { f.enqueue(batch{synced: true}) }

func (f *feed) enqueue(b batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.to = f.handlers; len(b.to) > 0 {
		f.append(b)
	}
}

// add adds a handler, for which alone the initial events are.
func (f *feed) add(h *handler, initial []Event, synced bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(initial) > 0 || synced {
		f.append(batch{to: []*handler{h}, events: initial, synced: synced})
	}
	f.handlers = append(slices.Clone(f.handlers), h)
}

func (f *feed) append(b batch) {
	f.batches = append(f.batches, b)
	select {
	case f.signal <- struct{}{}:
	default:
	}
}

// remove ends the calls of a handler; one that has begun may still run when it
// returns.
func (f *feed) remove(h *handler) {
	h.removed.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers = slices.DeleteFunc(slices.Clone(f.handlers), func(other *handler) bool { return other == h })
}

// run hands out events until the context ends.
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
	for _, e := range b.events {
		for _, h := range b.to {
			if !h.removed.Load() {
				h.event(e)
			}
		}
	}
	for _, h := range b.to {
		if b.synced && h.synced != nil && !h.removed.Load() {
			h.synced()
		}
	}
}
