package dispatch

import (
	"container/list"
	"time"

	"github.com/thole-dev/thole/host/object"
)

// lines are the order in which keys that an open breaker holds have their turn, one at a time. The
// standings take turns, so that keys that have failed keep none waiting that has not run, and
// for each of them the namespaces do, so that one with many keys keeps no other waiting for more
// than one of them. The order of the keys of a line is that of [queue.Queue.ReleaseFirst].
// Breaker.mu guards it.
type lines struct {
	pacer  *pacer                 // whose runs they are
	lines  [standings]list.List   // that have keys, by standing
	byLine map[line]*list.Element // of lines
	last   standing               // that had a turn

	// next is the key that was released for the next turn, and was not taken by a worker since.
	next  heldKey
	timer *time.Timer // for the end of a pause; nil: there was none
}

// line has the keys of a namespace with the same standing that a queue holds.
type line struct {
	queue    Queue
	tenant   string
	standing standing
}

// group is the name that the queue has for the line.
func (l line) group() string {
	return [...]string{notRun: "not run/", ranWell: "ran well/", failed: "failed/"}[l.standing] + l.tenant
}

// heldKey is a key of a queue. The zero value is none.
type heldKey struct {
	queue Queue
	key   object.Key
}

// takes reports whether it is the turn of a key that a worker has taken from its queue, and ends
// the wait for it.
func (t *lines) takes(k heldKey) bool {
	if t.next == k {
		t.next = heldKey{}
		return true
	}
	return t.next == heldKey{} && len(t.byLine) == 0
}

// add adds a line whose queue holds a key, behind the others unless it waits already.
func (t *lines) add(l line) {
	if t.byLine[l] == nil {
		t.byLine[l] = t.lines[l.standing].PushBack(l)
	}
}

// advance releases the key whose turn it is, or sets the timer for the end of the pause.
func (t *lines) advance(now time.Time, expired func()) {
	if t.pacer.busy || t.next != (heldKey{}) || len(t.byLine) == 0 {
		return
	}
	if pause := t.pacer.until.Sub(now); pause > 0 {
		t.setTimer(pause, expired)
		return
	}
	for len(t.byLine) > 0 && !t.releaseNext() {
	}
}

// releaseNext releases the first key of the next line. It returns false for a line that has none
// any more, which is removed.
func (t *lines) releaseNext() bool {
	for t.last = (t.last + 1) % standings; t.lines[t.last].Len() == 0; t.last = (t.last + 1) % standings {
	}
	front := t.lines[t.last].Front()
	l := front.Value.(line)
	key, ok := l.queue.ReleaseFirst(l.group())
	if !ok {
		t.remove(l)
		return false
	}
	t.next = heldKey{l.queue, key}
	t.lines[t.last].MoveToBack(front)
	return true
}

func (t *lines) setTimer(d time.Duration, expired func()) {
	if t.timer == nil {
		t.timer = time.AfterFunc(d, expired)
		return
	}
	t.timer.Reset(d)
}

// release releases the first keys of a line, beside the turns.
func (t *lines) release(l line, n int) {
	if t.byLine[l] == nil {
		return
	}
	for range n {
		if _, ok := l.queue.ReleaseFirst(l.group()); !ok {
			t.remove(l)
			return
		}
	}
}

func (t *lines) remove(l line) {
	t.lines[l.standing].Remove(t.byLine[l])
	delete(t.byLine, l)
}

// clear forgets all lines, whose keys were released.
func (t *lines) clear() {
	t.lines = [standings]list.List{}
	clear(t.byLine)
	if t.next = (heldKey{}); t.timer != nil {
		t.timer.Stop()
	}
}
