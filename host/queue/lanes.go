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

// waiter is a key in a [priorityQueue].
type waiter interface {
	lane() lane
	at() *position
}

// position is where a key is in a [priorityQueue]. The lock of that queue guards it.
type position struct {
	pushFront bool // the next Push puts the key to the front, with its former age
	listed    lane
	element   *list.Element
	dueSince  time.Time
}

func (p *position) at() *position { return p }

// priorityQueue decides in which order keys are returned. For the keys that are due it
// implements workqueue.Queue, and workqueue calls its methods with its own lock held.
type priorityQueue[W waiter] struct {
	lists [lanes]list.List // of W, in the order of their arrival
	// inARow counts the keys popped from a lane, or from one above, since a key
	// of a lower lane began to wait or was popped.
	inARow [lanes]int
}

// Push implements workqueue.Queue.
func (q *priorityQueue[W]) Push(w W) {
	at := w.at()
	if at.pushFront {
		at.pushFront, at.listed = false, w.lane()
		at.element = q.lists[at.listed].PushFront(w)
		return
	}
	at.dueSince = time.Now()
	q.pushBack(w)
}

// pushBack adds a key behind the others of its lane, with the age that it has.
func (q *priorityQueue[W]) pushBack(w W) {
	at := w.at()
	at.listed = w.lane()
	at.element = q.lists[at.listed].PushBack(w)
}

// Touch implements workqueue.Queue. workqueue calls it for an item that is
// added although it is in the queue already: its lane may have changed.
func (q *priorityQueue[W]) Touch(w W) {
	if at := w.at(); w.lane() != at.listed {
		q.lists[at.listed].Remove(at.element)
		q.pushBack(w)
	}
}

// Len implements workqueue.Queue.
func (q *priorityQueue[W]) Len() (n int) {
	for l := range q.lists {
		n += q.lists[l].Len()
	}
	return n
}

// Pop implements workqueue.Queue. workqueue does not call it while Len is 0.
func (q *priorityQueue[W]) Pop() W {
	from := &q.lists[q.next()]
	w := from.Remove(from.Front()).(W)
	w.at().element = nil
	return w
}

// next returns the lane of the next key: the highest that has one and need not
// let a lower one go first.
func (q *priorityQueue[W]) next() lane {
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
func (q *priorityQueue[W]) below(l lane) (waits, aged bool) {
	for ; l > background; l-- {
		if oldest := q.lists[l-1].Front(); oldest != nil {
			waits = true
			aged = aged || time.Since(oldest.Value.(W).at().dueSince) >= agedAfter[l-1]
		}
	}
	return waits, aged
}
