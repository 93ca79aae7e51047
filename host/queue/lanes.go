package queue

import (
	"container/list"
	"time"
)

// lane is one of the lists of keys that are due. Keys of a higher lane are
// returned first by [Queue.Next], except for what [agedShare] grants to the
// lower ones.
type lane int32

const (
	background lane = iota // initial lists, resyncs, new revisions, retries of a plugin that failed itself
	timed                  // deadlines: intervals, requeues, retries
	repeated               // fresh changes that came during the run or the backoff of the key
	fresh                  // all other fresh changes
	lanes
)

// agedShare bounds what aged keys take from a higher lane: one key out of
// agedShare.
const agedShare = 4

// agedAfter is how long a key waits behind all keys of the lanes above.
var agedAfter = [lanes]time.Duration{background: 10 * time.Second, timed: 10 * time.Second}

// priorityQueue implements workqueue.Queue: it decides in which order keys that
// are due are returned. workqueue calls its methods with its own lock held.
type priorityQueue struct {
	lists [lanes]list.List // of *entry, in the order of their arrival
	// inARow counts the keys popped from a lane, or from one above, since a key
	// of a lower lane began to wait or was popped.
	inARow [lanes]int
}

// Push implements workqueue.Queue.
func (q *priorityQueue) Push(e *entry) {
	l := e.lane()
	if e.pushFront {
		e.pushFront = false
		e.listed, e.element = l, q.lists[l].PushFront(e)
		return
	}
	e.dueSince = time.Now()
	e.listed, e.element = l, q.lists[l].PushBack(e)
}

// Touch implements workqueue.Queue. workqueue calls it for an item that is
// added although it is in the queue already: its lane may have changed.
func (q *priorityQueue) Touch(e *entry) {
	if l := e.lane(); l != e.listed {
		q.lists[e.listed].Remove(e.element)
		e.listed, e.element = l, q.lists[l].PushBack(e)
	}
}

// Len implements workqueue.Queue.
func (q *priorityQueue) Len() (n int) {
	for l := range q.lists {
		n += q.lists[l].Len()
	}
	return n
}

// Pop implements workqueue.Queue. workqueue does not call it while Len is 0.
func (q *priorityQueue) Pop() *entry {
	from := &q.lists[q.next()]
	e := from.Remove(from.Front()).(*entry)
	e.element = nil
	return e
}

// next returns the lane of the next key: the highest that has one and need not
// let a lower one go first.
func (q *priorityQueue) next() lane {
	for l := fresh; l > background; l-- {
		waits, aged := q.below(l)
		if q.lists[l].Len() == 0 || aged && q.inARow[l] >= agedShare-1 {
			q.inARow[l] = 0
			continue
		}
		if q.inARow[l]++; !waits {
			q.inARow[l] = 0
		}
		return l
	}
	return background
}

// below reports whether a key waits in the lanes below l, and whether one of
// them is aged. The first key of a lane is its oldest.
func (q *priorityQueue) below(l lane) (waits, aged bool) {
	for ; l > background; l-- {
		if oldest := q.lists[l-1].Front(); oldest != nil {
			waits = true
			aged = aged || time.Since(oldest.Value.(*entry).dueSince) >= agedAfter[l-1]
		}
	}
	return waits, aged
}
