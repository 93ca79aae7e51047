package sdktest

import (
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

func TestWhatTheControllerHasCreatedIsPruned(t *testing.T) {
	w, s, _ := worldFollowing(t, func(c *abi.Controller) { c.Prune = true })
	wants := func(prune bool, names ...string) {
		s.result = abi.Result{Result: abi.OutcomeSuccess, Prune: prune}
		for _, name := range names {
			s.result.Apply = append(s.result.Apply, abi.Apply{
				Object: []byte(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"` + name + `"}}`), Adopt: strings.HasPrefix(name, "theirs"),
			})
		}
	}
	w.Create(labelled("ns", "theirs", `"thole.dev/applied-by":"plug.one"`))
	wants(false, "a", "b", "theirs")
	w.Reconcile("ns/one").ExpectReady()
	if label := get(t, w, child.Ref("ns", "a")).Metadata.Labels[abi.LabelAppliedBy]; !strings.HasPrefix(label, "plug.") {
		t.Errorf("the label is %q", label)
	}
	wants(false, "b")
	if run := w.Reconcile("ns/one").ExpectReady(); slices.Contains(run.Writes, "delete v1 Child ns/a") {
		t.Error("deleted without prune")
	}
	wants(true, "b")
	if run := w.Reconcile("ns/one").ExpectReady(); !slices.Equal(run.Writes, []string{"delete v1 Child ns/a"}) {
		t.Errorf("writes %q, expected the deletion of a alone", run.Writes)
	}
	wants(true)
	w.FailWrite("delete v1 Child ns/b", "Forbidden")
	w.Reconcile("ns/one").ExpectRetry("Forbidden")
	w.FailWrite("delete v1 Child ns/b", "")
	w.Reconcile("ns/one").ExpectReady()
	w.ExpectGone(child.Ref("ns", "b"))
	if get(t, w, child.Ref("ns", "theirs")).Metadata.Name == "" {
		t.Error("what was adopted is gone")
	}
}
