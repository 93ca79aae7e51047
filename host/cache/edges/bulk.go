package edges

import (
	"runtime"
	"slices"
	"sync"
)

// bulkWakes wakes the readers of edges that have very many, in a goroutine of its own,
// so that no event waits for them. While the readers of an edge wait, a further change
// adds nothing: what waits is bounded by the number of edges.
type bulkWakes struct {
	index *Index

	mu      sync.Mutex
	waiting []*bulkWake
	working bool
	stopped bool
	done    sync.WaitGroup
}

// bulkWake is the edge whose readers are to be woken.
type bulkWake struct {
	kind   *Kind
	id     uint64
	left   int // readers that are not woken yet; -1 before the first
	change Change
}

// slice is how many keys are woken before other goroutines have a turn.
const slice = 500

// add makes the readers of an edge be woken. The kind is locked.
func (s *bulkWakes) add(k *Kind, id uint64, c Change) {
	many := k.readers.many[id]
	if many.waiting {
		many.change = Change{}
		return
	}
	many.waiting, many.change = true, c
	k.pending[id]++
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.waiting = append(s.waiting, &bulkWake{kind: k, id: id, left: -1})
	if !s.working {
		s.working = true
		s.done.Go(s.work)
	}
}

func (s *bulkWakes) work() {
	for {
		s.mu.Lock()
		if len(s.waiting) == 0 || s.stopped {
			s.working, s.waiting = false, nil
			s.mu.Unlock()
			return
		}
		next := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.mu.Unlock()
		s.wake(next)
	}
}

func (s *bulkWakes) wake(w *bulkWake) {
	for {
		some, change, more := w.take()
		for _, r := range some {
			s.index.config.Wake(r.owner(), change, true)
		}
		if !more || s.isStopped() {
			return
		}
		runtime.Gosched()
	}
}

// take returns the next readers of the edge. It begins with the last ones, in whose
// places later ones come, and into whose places those move whose own are needed: no
// reader that was there at the first call is left out.
func (w *bulkWake) take() (some []*reader, c Change, more bool) {
	w.kind.mu.Lock()
	defer w.kind.mu.Unlock()
	many := w.kind.readers.many[w.id]
	if many == nil { // there are fewer by now
		w.done()
		return w.kind.readers.appendTo(nil, w.id), Change{}, false
	}
	if w.left < 0 { // the next change makes them wait again
		w.change, w.left = many.change, len(many.list)
		many.waiting, many.change = false, Change{}
	}
	w.left = min(w.left, len(many.list))
	from := max(0, w.left-slice)
	some = slices.Clone(many.list[from:w.left])
	if w.left = from; from == 0 {
		w.done()
	}
	return some, w.change, from > 0
}

// done notes that nobody is left to be woken. The kind is locked.
func (w *bulkWake) done() {
	if w.kind.pending[w.id]--; w.kind.pending[w.id] <= 0 {
		delete(w.kind.pending, w.id)
	}
}

func (s *bulkWakes) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

func (s *bulkWakes) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.done.Wait()
}
