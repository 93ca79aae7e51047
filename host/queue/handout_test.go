package queue

import (
	"testing"

	"github.com/thole-dev/thole/abi"
)

// A key that is lifted just after it was taken out of work, and before it was
// handed out, stays in work a second time. It must not be run for that.
func TestKeyLiftedWhileItIsTaken(t *testing.T) {
	q := New(Config{})
	defer q.ShutDown()
	a, b := Key{Name: "a"}, Key{Name: "b"}
	q.Trigger(a, abi.ReasonResync)
	e, _ := q.work.Get()
	q.Trigger(a, abi.ReasonPrimary)
	item, due := q.handOut(e)
	if !due || len(item.Reasons) != 2 {
		t.Fatalf("handed out %v, due %v", item, due)
	}
	q.Settle(a, Next{})
	q.Trigger(b, abi.ReasonPrimary)
	if item, _ := q.Next(); item.Key != b {
		t.Fatalf("handed out %s without a reason", item.Key)
	}
	q.Trigger(a, abi.ReasonPrimary)
	if item, _ := q.Next(); item.Key != a {
		t.Fatalf("handed out %s, want a again", item.Key)
	}
}
