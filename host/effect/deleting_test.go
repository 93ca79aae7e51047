package effect

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

func TestAnObjectThatOthersHoldComesToOwnNothing(t *testing.T) {
	w := newCluster(t)
	c := controller(list(configMap), nil)
	c.WhileDeleting = true
	exists := w.create(widget, `{"metadata":{"name":"w","finalizers":["test.dev/foreign"]},"spec":{}}`)
	target := Target{Controller: c, Object: exists}
	if _, failure := w.PerformIntents(t.Context(), target, apply(configObject, "1")); failure != nil {
		t.Fatal(failure)
	}
	w.seen(configMap, "c")
	w.remove(widget, "w")
	target.Object = w.live(widget, "w")
	if report, failure := w.PerformIntents(t.Context(), target, apply(configObject, "2")); failure != nil || len(report.Writes) != 1 {
		t.Errorf("what exists is not changed: %+v, %v", report, failure)
	}
	w.wire.take()
	other := apply(strings.Replace(configObject, `"c"`, `"new"`, 1), "1")
	_, failure := w.PerformIntents(t.Context(), target, other)
	if failure == nil || failure.Class != abi.ClassDenied || failure.Reason != reasonOutOfScope || !strings.Contains(failure.Message, "being deleted") || w.live(configMap, "new") != nil {
		t.Errorf("got %+v", failure)
	}
	c.Owns, c.Writes = nil, []abi.Kind{configMap.Kind}
	if _, failure := w.PerformIntents(t.Context(), target, other); failure != nil || w.live(configMap, "new") == nil {
		t.Errorf("what it does not own is not created: %v", failure)
	}
	w.edit(widget, "w", "", `{"metadata":{"finalizers":null}}`)
}
