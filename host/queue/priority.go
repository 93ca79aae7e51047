package queue

import (
	"container/list"
	"time"
)

// priority is how soon a key that is due should be returned by [Queue.Next].
type priority int32

const (
	background priority = iota // initial lists, resyncs, new revisions
	urgent                     // fresh changes, and runs that somebody asked for
)

const (
	// agedAfter is how long a background key waits behind urgent ones.
	agedAfter = 10 * time.Second
	// agedShare bounds what aged background keys take from urgent ones: one key
	// out of agedShare.
	agedShare = 4
)

// priorityQueue implements workqueue.Queue: it decides in which order keys that
// are due are returned. workqueue calls its methods with its own lock held.
type priorityQueue struct {
	lists        [2]list.List // of *entry, by priority, in the order of their arrival
	urgentInARow int          // urgent keys popped since the last background key
}

// Push implements workqueue.Queue.
func (q *priorityQueue) Push(e *entry) {
	p := e.priority()
	if e.pushFront {
		e.pushFront = false
		e.listed, e.element = p, q.lists[p].PushFront(e)
		return
	}
	e.dueSince = time.Now()
	e.listed, e.element = p, q.lists[p].PushBack(e)
}

// Touch implements workqueue.Queue. workqueue calls it for an item that is
// added although it is in the queue already: its priority may have changed.
func (q *priorityQueue) Touch(e *entry) {
	if p := e.priority(); p != e.listed {
		q.lists[e.listed].Remove(e.element)
		e.listed, e.element = p, q.lists[p].PushBack(e)
	}
}

// Len implements workqueue.Queue.
func (q *priorityQueue) Len() int { return q.lists[urgent].Len() + q.lists[background].Len() }

// Pop implements workqueue.Queue. workqueue does not call it while Len is 0.
func (q *priorityQueue) Pop() *entry {
	from := &q.lists[urgent]
	if q.backgroundIsNext() {
		from = &q.lists[background]
		q.urgentInARow = 0
	} else {
		q.urgentInARow++
	}
	e := from.Remove(from.Front()).(*entry)
	e.element = nil
	return e
}

func (q *priorityQueue) backgroundIsNext() bool {
	oldest := q.lists[background].Front()
	switch {
	case oldest == nil:
		return false
	case q.lists[urgent].Len() == 0:
		return true
	}
	return q.urgentInARow >= agedShare-1 && time.Since(oldest.Value.(*entry).dueSince) >= agedAfter
}
