package effect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/rights"
)

const ourAnnotation = "main.demo.thole.dev/handled"

func TestAnnotationIsWrittenOnceAndRemoved(t *testing.T) {
	w := newCluster(t)
	target := Target{Controller: controller(nil, nil), Object: w.create(widget, `{"metadata":{"name":"w","annotations":{"a":"b"}}}`)}
	report, failure := w.Annotate(t.Context(), target, ourAnnotation, "one")
	if failure != nil || len(report.Writes) != 1 || report.Primary.Annotations[ourAnnotation] != "one" || report.Primary.Annotations["a"] != "b" {
		t.Fatalf("got %+v %v", report, failure)
	}
	if report.Before != target.Object || report.Primary.Generation != target.Object.Generation {
		t.Errorf("before %v, generation %d after %d", report.Before, report.Primary.Generation, target.Object.Generation)
	}
	target.Object = report.Primary
	w.wire.take()
	if again, failure := w.Annotate(t.Context(), target, ourAnnotation, "one"); len(again.Writes) != 0 || failure != nil {
		t.Errorf("got %+v %v", again, failure)
	}
	w.expectSent()
	report, failure = w.Annotate(t.Context(), target, ourAnnotation, "")
	if _, left := report.Primary.Annotations[ourAnnotation]; failure != nil || left {
		t.Errorf("got %+v %v", report, failure)
	}
}

func TestAnnotationKeepsWhatOthersChangeMeanwhile(t *testing.T) {
	w := newCluster(t)
	target := Target{Controller: controller(nil, nil), Object: w.create(widget, `{"metadata":{"name":"w"}}`)}
	w.wire.before = func(request) { w.edit(widget, "w", "", `{"metadata":{"annotations":{"a":"b"}}}`) }
	report, failure := w.Annotate(t.Context(), target, ourAnnotation, "one")
	if failure != nil || report.Primary.Annotations["a"] != "b" || report.Before.Annotations["a"] != "b" {
		t.Errorf("got %+v %v", report, failure)
	}
}

func TestAnnotationOfAnObjectThatIsGoneIsNotWritten(t *testing.T) {
	w := newCluster(t)
	target := Target{Controller: controller(nil, nil), Object: w.create(widget, `{"metadata":{"name":"w"}}`)}
	w.remove(widget, "w")
	if report, failure := w.Annotate(t.Context(), target, ourAnnotation, "one"); failure != nil || len(report.Writes) != 0 {
		t.Errorf("got %+v %v", report, failure)
	}
	w.create(widget, `{"metadata":{"name":"w"}}`)
	if report, failure := w.Annotate(t.Context(), target, ourAnnotation, "one"); failure != nil || len(report.Writes) != 0 {
		t.Errorf("its successor: %+v %v", report, failure)
	}
}

// The reason is one of those for which the state is written without its content.
func TestAnnotationThatIsTooLongIsInvalid(t *testing.T) {
	w := newCluster(t)
	target := Target{Controller: controller(nil, nil), Object: w.create(widget, `{"metadata":{"name":"w"}}`)}
	_, failure := w.Annotate(t.Context(), target, ourAnnotation, strings.Repeat("x", 300<<10))
	if failure == nil || failure.Reason != "Invalid" || failure.Verb != abi.VerbPatch {
		t.Errorf("got %v", failure)
	}
}

func TestAPrimaryThatIsGoneOwnsNothing(t *testing.T) {
	w := newCluster(t)
	target := Target{Controller: controller(list(configMap), nil), Object: w.create(widget, `{"metadata":{"name":"w"}}`), Gone: true}
	_, failure := w.PerformIntents(t.Context(), target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`))
	if failure == nil || failure.Class != abi.ClassDenied {
		t.Errorf("got %v", failure)
	}
	target.Cleanup = true
	_, failure = w.PerformIntents(t.Context(), target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`))
	if failure == nil || failure.Class != abi.ClassStalled {
		t.Errorf("in a cleanup, which no later run can make: got %v", failure)
	}
	target.Controller = controller(nil, list(configMap))
	if _, failure := w.PerformIntents(t.Context(), target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`)); failure != nil {
		t.Errorf("a kind in writes: %v", failure)
	}
}

// It may still exist, as one that the controller does not follow any more, and there may be
// another one of its name.
func TestAPrimaryThatIsGoneIsNotWrittenToAsAKindInWrites(t *testing.T) {
	w := newCluster(t)
	w.start(func(c *Config) { c.Allow = allowing(rights.Any) })
	target := Target{Controller: controller(nil, list(widget)), Object: w.create(widget, `{"metadata":{"name":"w"}}`), Gone: true}
	for name, result := range map[string]*abi.Result{
		"apply":  apply(`{"apiVersion":%q,"kind":"Widget","metadata":{"name":"w"},"spec":{"size":2}}`, widget.Kind.APIVersion),
		"delete": {Delete: []abi.Delete{{Ref: widget.Kind.Ref(w.ns, "w")}}},
	} {
		if _, failure := w.PerformIntents(t.Context(), target, result); failure == nil || failure.Class != abi.ClassDenied {
			t.Errorf("%s: got %v", name, failure)
		}
	}
	if now := w.live(widget, "w"); now == nil || now.ResourceVersion != target.Object.ResourceVersion {
		t.Errorf("it is now %v", now)
	}
}

// A child whose own annotations leave no room for that of the host is valid: it is applied without,
// and not again in every run.
func TestAChildWithoutRoomForTheAnnotationIsApplied(t *testing.T) {
	const limit = 256 << 10
	for _, create := range []bool{false, true} {
		t.Run(fmt.Sprintf("create %v", create), func(t *testing.T) {
			w := newCluster(t)
			target := w.owner(list(configMap), nil)
			child := func(value string) *abi.Result {
				in := apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","annotations":{"mine":%q}},"data":{"k":%q}}`, strings.Repeat("a", limit-len("mine")-10), value)
				if create {
					return creating(in)
				}
				return in
			}
			w.intents(target, child("1"))
			have := w.seen(configMap, "c")
			if have == nil || have.Annotations[AppliedAnnotation] != "" || have.Controller() == nil {
				t.Fatalf("got %v", have)
			}
			if !slices.ContainsFunc(w.recorder.events, func(e string) bool { return strings.Contains(e, reasonNotAnnotated) }) {
				t.Error("nothing is told")
			}
			w.wire.take()
			w.intents(target, child("1"))
			w.expectSent()
			w.start() // without what is remembered
			w.intents(target, child("1"))
			if create {
				return
			}
			w.wire.take()
			w.intents(target, child("1"))
			w.expectSent()
			w.intents(target, child("2"))
			if got := field(w.seen(configMap, "c"), "data", "k"); got != `"2"` {
				t.Errorf("the child has %s", got)
			}
		})
	}
	w := newCluster(t)
	_, failure := w.PerformIntents(t.Context(), w.owner(list(configMap), nil), apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d","annotations":{"mine":%q}}}`, strings.Repeat("a", limit)))
	if failure == nil || !strings.Contains(failure.Message, "metadata.annotations: Too long") {
		t.Errorf("annotations that are too long themselves: %+v", failure)
	}
}
