package edges

import (
	"runtime"
	"slices"
	"sync"
)

// crowds wakes the readers of edges that have very many, in a goroutine of its own,
// so that no event waits for them. While a crowd waits, further changes are woken
// for with it: what waits is bounded by the number of edges.
type crowds struct {
	index *Index

	mu      sync.Mutex
	waiting []*waitingCrowd
	working bool
	stopped bool
	done    sync.WaitGroup
}

// waitingCrowd is the edge whose readers are to be woken.
type waitingCrowd struct {
	kind *Kind
	id   uint64
}

// slice is how many keys are woken before other goroutines have a turn.
const slice = 500

// add makes the readers of an edge be woken. The kind is locked.
func (s *crowds) add(k *Kind, id uint64, c Change) {
	many := k.readers[id].many
	if many.waiting {
		many.change = Change{}
		return
	}
	many.waiting, many.change = true, c
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.waiting = append(s.waiting, &waitingCrowd{k, id})
	if !s.working {
		s.working = true
		s.done.Go(s.work)
	}
}

func (s *crowds) work() {
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
		all, change := next.take()
		s.wake(all, change)
	}
}

// take returns the readers of the edge. The next change makes them wait again.
func (w *waitingCrowd) take() ([]*reader, Change) {
	w.kind.mu.Lock()
	defer w.kind.mu.Unlock()
	set := w.kind.readers[w.id]
	if set.many == nil { // there are fewer by now
		return set.appendTo(nil), Change{}
	}
	change := set.many.change
	set.many.waiting, set.many.change = false, Change{}
	return slices.Clone(set.many.list), change
}

func (s *crowds) wake(all []*reader, c Change) {
	for i, r := range all {
		if i%slice == slice-1 {
			if s.isStopped() {
				return
			}
			runtime.Gosched()
		}
		s.index.config.Wake(r.owner(), c, true)
	}
}

func (s *crowds) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

func (s *crowds) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.done.Wait()
}
