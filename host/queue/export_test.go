package queue

import "unsafe"

// EntrySize is how many bytes a key takes that runs or waits, beside its strings.
const EntrySize = unsafe.Sizeof(entry{})

// Known returns how many keys cost memory, and how many have a timer.
func (q *Queue) Known() (keys, deadlines int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.keys), len(q.deadlines)
}

// Place returns for how many keys the queue has place.
func (q *Queue) Place() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(q.most, cap(q.deadlines))
}
