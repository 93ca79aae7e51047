package sdktest

import (
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// groupedScript returns a world whose controller applies a Child a in the group "pods" and b in
// none, and deletes the Child old in "pods" and older in "rest".
func groupedScript(t *testing.T) (*World, *script) {
	s := newScript()
	s.controller.Finalizer = false
	s.controller.Conditions = abi.Conditions{Owned: []string{"PodsFailed"}, NegativePolarity: []string{"PodsFailed"}}
	w := NewWith(t, s)
	w.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one"}}`)
	s.wants(childNamed("old"), childNamed("older"))
	w.Reconcile("ns/one")
	s.wants(childNamed("a"), childNamed("b"))
	s.result.Apply[0].Group = "pods"
	s.result.Delete = []abi.Delete{{Ref: child.Ref("ns", "old"), Group: "pods"}, {Ref: child.Ref("ns", "older"), Group: "rest"}}
	s.result.Groups = []abi.Group{{Name: "pods", Condition: "PodsFailed"}}
	s.result.Status = []byte(`{"n":1}`)
	return w, s
}

func childNamed(name string) string {
	return `{"apiVersion":"v1","kind":"Child","metadata":{"name":"` + name + `"}}`
}

func TestAGroupFailsAloneAsInAHost(t *testing.T) {
	w, s := groupedScript(t)
	w.FailWrite("apply v1 Child ns/a", "Forbidden")
	r := w.Reconcile("ns/one")
	if got := strings.Join(r.Writes, ", "); got != "apply v1 Child ns/b, delete v1 Child ns/older, status" {
		t.Errorf("writes: %s", got)
	}
	if r.Class != abi.ClassRetry || r.Reason != "Forbidden" {
		t.Errorf("the run ended with %s %s", r.Class, r.Reason)
	}
	var got struct {
		Status struct {
			N          int
			Conditions []abi.Condition
		}
	}
	w.Get(theOne, &got)
	if i := indexOf(got.Status.Conditions, "PodsFailed"); got.Status.N != 1 || i < 0 || got.Status.Conditions[i].Status != abi.ConditionTrue {
		t.Errorf("the status is %+v", got.Status)
	}
	w.FailWrite("apply v1 Child ns/a", "")
	r = w.Reconcile("ns/one")
	if previous := s.request.Previous; previous == nil || len(previous.Failures) != 1 || previous.Failures[0].Group != "pods" {
		t.Errorf("the next run knows of %+v", previous)
	}
	if got := strings.Join(r.Writes, ", "); r.Class != abi.ClassNone || got != "apply v1 Child ns/a, delete v1 Child ns/old, status" {
		t.Errorf("class %q, writes: %s", r.Class, got)
	}
}

func TestRequeueAfterBesideAFailedGroupIsNoBackoffOfTheController(t *testing.T) {
	w, s := groupedScript(t)
	w.FailWrite("apply v1 Child ns/a", "Forbidden")
	s.result.RequeueAfter = 200
	w.Reconcile("ns/one").ExpectRetry("Forbidden").ExpectNext(200 * time.Millisecond)
	s.result.RequeueAfter = 3_600_000
	w.Reconcile("ns/one").ExpectRetry("Forbidden").ExpectBackoff(time.Second)
}

func TestWhatIsDeniedInAGroupFailsTheGroup(t *testing.T) {
	w, s := groupedScript(t)
	s.result.Apply[0].Object = []byte(`{"apiVersion":"v1","kind":"Undeclared","metadata":{"name":"a"}}`)
	r := w.Reconcile("ns/one")
	if got := strings.Join(r.Writes, ", "); r.Class != abi.ClassDenied || r.Reason != "NotDeclared" || got != "apply v1 Child ns/b, delete v1 Child ns/older, status" {
		t.Errorf("class %q, reason %s, writes: %s", r.Class, r.Reason, got)
	}
	s.result.Apply[0].Object = s.result.Apply[1].Object // the contract is violated
	if r = w.Reconcile("ns/one"); r.Class != abi.ClassABI || len(r.failures()) != 1 || r.failures()[0].Group != "" {
		t.Errorf("class %q, failures %+v", r.Class, r.failures())
	}
}

func TestAnIntentOfNoGroupEndsTheEffectsAsInAHost(t *testing.T) {
	w, s := groupedScript(t)
	w.FailWrite("apply v1 Child ns/a", conflict)
	w.FailWrite("apply v1 Child ns/b", "Forbidden")
	if r := w.Reconcile("ns/one"); r.Reason != "Forbidden" || r.decision.Uncounted || len(r.failures()) != 2 {
		t.Errorf("reason %s, failures %+v", r.Reason, r.failures())
	}
	w.FailWrite("apply v1 Child ns/b", "")
	r := w.Reconcile("ns/one")
	if got := strings.Join(r.Writes, ", "); !r.decision.Uncounted || r.decision.Next.Kind != outcome.Backoff || got != "apply v1 Child ns/b, delete v1 Child ns/older, status" {
		t.Errorf("a conflict alone: %+v, writes: %s", r.decision, got)
	}
	s.result.Groups[0].Condition = "Ready"
	if r = w.Reconcile("ns/one"); r.Class != abi.ClassABI || !strings.Contains(r.Message, "groups: ") {
		t.Errorf("a condition that no group may have: %s %s", r.Class, r.Message)
	}
}
