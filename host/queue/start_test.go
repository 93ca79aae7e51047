package queue

import (
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// A key whose lane is raised after the workqueue has returned it and before
// it is started is in the workqueue a second time. It must not run twice.
func TestAKeyWhoseLaneIsRaisedWhileItIsTakenRunsOnce(t *testing.T) {
	q := New(Config{})
	defer q.ShutDown()
	a, b := Key{Name: "a"}, Key{Name: "b"}
	q.Add(a, Cause{Reason: abi.ReasonResync})
	e, _ := q.work.Get()
	q.Add(a, Cause{Reason: abi.ReasonPrimary})
	item, due := q.start(e)
	if !due || len(item.Reasons) != 2 {
		t.Fatalf("started %v, due %v", item, due)
	}
	q.Done(a, outcome.Next{})
	q.Add(b, Cause{Reason: abi.ReasonPrimary})
	if item, _ := q.Next(); item.Key != b {
		t.Fatalf("Next returned %s without a reason", item.Key)
	}
	q.Add(a, Cause{Reason: abi.ReasonPrimary})
	if item, _ := q.Next(); item.Key != a {
		t.Fatalf("Next returned %s, want a again", item.Key)
	}
}
