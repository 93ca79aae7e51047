package queue

import "time"

// level says how soon a key that is due should be handed out.
type level int32

const (
	background level = iota // initial lists, resyncs, new generations
	urgent                  // fresh changes, and runs that were asked for
)

const (
	// agedAfter is how long a background key waits for urgent ones.
	agedAfter = 10 * time.Second
	// agedShare bounds what old background keys take from urgent ones: one
	// key of so many.
	agedShare = 4
)

// lanes implements workqueue.Queue: the order in which keys that are due are
// handed out. Its methods are called under the lock inside work.
type lanes struct {
	lanes  [2]lane // by level
	passed int     // urgent keys handed out since the last background one
}

// lane is a list in the order of coming.
type lane struct {
	first, last *entry
	len         int
}

// Push implements workqueue.Queue.
func (l *lanes) Push(e *entry) {
	lane := &l.lanes[e.level()]
	if e.back {
		e.back = false
		lane.prepend(e)
		return
	}
	e.since = time.Now()
	lane.append(e)
}

// Touch implements workqueue.Queue: a key that became urgent changes lanes.
func (l *lanes) Touch(e *entry) {
	if wish := &l.lanes[e.level()]; e.lane != wish {
		e.lane.remove(e)
		wish.append(e)
	}
}

// Len implements workqueue.Queue.
func (l *lanes) Len() int { return l.lanes[urgent].len + l.lanes[background].len }

// Pop implements workqueue.Queue; it is not called when there is none.
func (l *lanes) Pop() *entry {
	from := &l.lanes[urgent]
	if l.backgroundFirst() {
		from = &l.lanes[background]
		l.passed = 0
	} else {
		l.passed++
	}
	e := from.first
	from.remove(e)
	return e
}

func (l *lanes) backgroundFirst() bool {
	oldest := l.lanes[background].first
	switch {
	case oldest == nil:
		return false
	case l.lanes[urgent].first == nil:
		return true
	default:
		return l.passed >= agedShare-1 && time.Since(oldest.since) >= agedAfter
	}
}

func (l *lane) append(e *entry) {
	e.lane, e.ahead, e.behind = l, l.last, nil
	if l.last == nil {
		l.first = e
	} else {
		l.last.behind = e
	}
	l.last = e
	l.len++
}

func (l *lane) prepend(e *entry) {
	e.lane, e.ahead, e.behind = l, nil, l.first
	if l.first == nil {
		l.last = e
	} else {
		l.first.ahead = e
	}
	l.first = e
	l.len++
}

func (l *lane) remove(e *entry) {
	if e.ahead == nil {
		l.first = e.behind
	} else {
		e.ahead.behind = e.behind
	}
	if e.behind == nil {
		l.last = e.ahead
	} else {
		e.behind.ahead = e.ahead
	}
	e.lane, e.ahead, e.behind = nil, nil, nil
	l.len--
}
