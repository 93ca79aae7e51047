package receives

import (
	"sync"

	"github.com/thole-dev/thole/host/access"
)

// Bounds of the requests at once of callers that are known. Each has at most a part of them.
const (
	maxRequests = 64
	maxOfCaller = 16
)

// room bounds the requests at once, of all and of each caller.
type room struct {
	mu       sync.Mutex
	requests int
	byCaller map[string]int // by the name of the user; none has 0
}

// enter takes a place for a request of a caller. leave frees it; it is nil if there is none.
func (r *room) enter(caller *access.Caller) (leave func()) {
	name := caller.Name()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests == maxRequests || r.byCaller[name] == maxOfCaller {
		return nil
	}
	if r.byCaller == nil {
		r.byCaller = map[string]int{}
	}
	r.requests++
	r.byCaller[name]++
	return func() { r.leave(name) }
}

func (r *room) leave(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests--
	if r.byCaller[name]--; r.byCaller[name] == 0 {
		delete(r.byCaller, name)
	}
}
