package host

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

// dispatchQueue is a queue as dispatch wants it.
type dispatchQueue struct{ *queue.Queue }

var _ dispatch.Queue = dispatchQueue{}

func (q dispatchQueue) Next() (dispatch.Due, bool) {
	item, shutdown := q.Queue.Next()
	return dispatch.Due{Key: item.Key, Reasons: item.Reasons, Reset: item.Reset}, !shutdown
}

func (q dispatchQueue) Settle(key object.Key, next outcome.Next) {
	after := next.After
	if next.Kind == outcome.AwaitChange {
		after = 0
	}
	q.Queue.Settle(key, queue.Next{After: after, Backoff: next.Kind == outcome.Backoff, Yields: next.Yields, Reason: next.Reason})
}

func (q dispatchQueue) Return(due dispatch.Due) {
	q.Queue.Return(queue.Item{Key: due.Key, Reasons: due.Reasons, Reset: due.Reset})
}

func (q dispatchQueue) Trigger(key object.Key, reason abi.Reason) { q.Queue.Trigger(key, reason) }
