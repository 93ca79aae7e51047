package queue

import (
	"time"
	"unsafe"
)

// EntrySize is how many bytes a key takes that runs or waits, beside its strings.
const EntrySize = unsafe.Sizeof(entry{})

// Known returns how many keys cost memory, and how many have a timer.
func (q *Queue) Known() (keys, deadlines int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.keys), len(q.deadlines)
}

// AddPluginAfter is what [Queue.AddSpread] does for one key.
func (q *Queue) AddPluginAfter(key Key, delay time.Duration) { q.addPlugin(key, delay) }

// Place returns for how many keys the queue has place.
func (q *Queue) Place() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(q.most, cap(q.deadlines))
}
