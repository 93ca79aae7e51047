package queue

import (
	"slices"
)

// This file keeps keys that are due and may not run yet.

// held is a key that is due and that [Queue.Next] does not return before it is released.
type held struct {
	*entry
	position // in its group
	group    string
}

func (h *held) at() *position { return &h.position }

// group has the keys that are held together, in the order in which they are released.
// Queue.mu guards it.
type group = priorityQueue[*held]

// Hold is PutBack for a key that may not run yet: it stays due, and Next does not return it
// before [Queue.ReleaseFirst] or [Queue.ReleaseAll] has released it. What is added meanwhile
// counts for it as for any key that is due. The groups of a queue are independent: each has the
// lanes of the queue, and its keys wait for no key of another group.
//
// If the key was made due again since Next has returned it, Hold is PutBack and returns false.
func (q *Queue) Hold(item Item, group string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys[item.Key]
	if e == nil || !e.running {
		return false
	}
	again := e.due // then the workqueue has it, too
	if l := e.putBack(item); again {
		q.makeDue(e, l)
	} else {
		q.hold(e, l, group)
	}
	q.work.Done(e)
	q.update(e)
	return !again
}

// hold makes a key due in a group. q.mu is held.
func (q *Queue) hold(e *entry, l lane, name string) {
	e.setLane(l)
	e.due, e.held = true, &held{entry: e, position: position{dueSince: e.dueSince}, group: name}
	if q.groups[name] == nil {
		q.groups[name] = &group{}
	}
	q.groups[name].pushBack(e.held)
	if q.depth != nil {
		q.depth.Inc()
	}
}

// ReleaseFirst lets Next return the first key of a group, before the others of its lane. ok is
// false if the group has none, or the queue was shut down.
func (q *Queue) ReleaseFirst(group string) (key Key, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.groups[group]
	if g == nil || q.stopped {
		return Key{}, false
	}
	h := g.Pop()
	if g.Len() == 0 {
		delete(q.groups, group)
	}
	q.release(h)
	return h.key, true
}

// ReleaseAll lets Next return every key that is held. They are at the front of their lanes
// again, those first that have been due for longest.
func (q *Queue) ReleaseAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []*held
	for _, g := range q.groups {
		for g.Len() > 0 {
			all = append(all, g.Pop())
		}
	}
	clear(q.groups)
	slices.SortStableFunc(all, func(a, b *held) int { return a.at().dueSince.Compare(b.at().dueSince) })
	for _, h := range slices.Backward(all) {
		q.release(h)
	}
}

// release hands a key to the workqueue, which keeps its age. q.mu is held.
func (q *Queue) release(h *held) {
	h.entry.held, h.entry.pushFront = nil, true
	if q.depth != nil {
		q.depth.Dec()
	}
	q.work.Add(h.entry)
}
