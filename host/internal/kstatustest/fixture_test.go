package kstatustest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

var actors = schema.GroupVersionResource{Group: "kstatus.thole.dev", Version: "v1", Resource: "actors"}

// scriptAnnotation holds a script that replaces the one of the spec.
const scriptAnnotation = "kstatus.thole.dev/script"

// fixture is a running host with the actor plugin, and the history of the objects
// that it writes.
type fixture struct {
	t                *testing.T
	ns               string
	checker          statusChecker
	actors, children *history
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	installCRD(t, "testdata/actor/crd.yaml", actors)
	wasm := wasmbuild.Build(t, wasmbuild.TinyGo, "host/internal/kstatustest/testdata/actor")
	ns := namespace(t)
	s := &fixture{
		t: t, ns: ns, checker: newActorChecker(),
		actors: watchHistory(t, actors, ns), children: watchHistory(t, configMaps, ns),
	}
	thole(t, ns, "actor", wasm)
	return s
}

// actorConsistent returns why an actor's status must not be current. The status has
// the outcome of the run and the generation that the run was given.
func actorConsistent(v version, child *unstructured.Unstructured) error {
	outcome, scriptID := field(v.object, "status", "outcome"), field(v.object, "status", "scriptID")
	seen, _, _ := unstructured.NestedInt64(v.object.Object, "status", "seen")
	switch {
	case seen != v.object.GetGeneration():
		return fmt.Errorf("the run saw generation %d of %d", seen, v.object.GetGeneration())
	case outcome == "empty" && !scripted(v.object) && (v.before == nil || conditionOf(v.before, "Ready")["status"] != "True"):
		return errors.New("the run returned nothing, and the object was not Ready before")
	case !slices.Contains([]string{"success", "after", "empty"}, outcome):
		return fmt.Errorf("the outcome of the run is %s", outcome)
	case field(child, "data", "scriptID") != scriptID:
		return fmt.Errorf("its child is of script %q, not %q", field(child, "data", "scriptID"), scriptID)
	}
	return nil
}

// scripted reports whether Ready was set by a script, or summarized from a
// condition that was.
func scripted(o *unstructured.Unstructured) bool {
	return conditionOf(o, "Ready")["reason"] == "Scripted"
}

func (s *fixture) create(name, script string) {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kstatus.thole.dev/v1", "kind": "Actor",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"script": steps(script)},
	}}
	if _, err := objects.Resource(actors).Namespace(s.ns).Create(s.t.Context(), o, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// applied is a change that was made to an actor.
type applied struct {
	scriptID string // as it will be in the actor's status
	version  string // the resourceVersion of the change
}

// apply makes the i-th change of an actor, by a new spec or by the annotation
// alone. The first one was made by create.
func (s *fixture) apply(name string, i int, c change) applied {
	s.t.Helper()
	switch {
	case i == 0:
		return applied{"1/", "0"}
	case c.inAnnotation:
		annotation := fmt.Sprintf("%d:%s", i, c.script)
		o := s.patch(name, types.MergePatchType, map[string]any{"metadata": annotations(annotation)})
		return applied{fmt.Sprintf("%d/%s", o.GetGeneration(), annotation), o.GetResourceVersion()}
	default:
		o := s.patch(name, types.MergePatchType, map[string]any{
			"metadata": annotations(nil),
			"spec":     map[string]any{"change": i, "script": steps(c.script)},
		})
		return applied{fmt.Sprintf("%d/", o.GetGeneration()), o.GetResourceVersion()}
	}
}

func annotations(value any) map[string]any {
	return map[string]any{"annotations": map[string]any{scriptAnnotation: value}}
}

func (s *fixture) patch(name string, how types.PatchType, patch any, subresources ...string) *unstructured.Unstructured {
	s.t.Helper()
	body, err := json.Marshal(patch)
	if err != nil {
		s.t.Fatal(err)
	}
	o, err := objects.Resource(actors).Namespace(s.ns).Patch(s.t.Context(), name, how, body, metav1.PatchOptions{}, subresources...)
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

// addForeignCondition writes a condition as another controller might: without
// observedGeneration, which the checkers would not accept.
func (s *fixture) addForeignCondition(name string) {
	s.t.Helper()
	s.patch(name, types.JSONPatchType, []map[string]any{{"op": "add", "path": "/status/conditions/-", "value": map[string]any{
		"type": "Foreign", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}, "status")
}

// expectEnd waits for the last step of a script and compares the status with the
// expected one, and the values of Ready before with the expected ones.
func (s *fixture) expectEnd(name string, a applied, c change) {
	s.t.Helper()
	o := s.awaitEnd(name, a, c)
	r, err := status.Compute(o)
	if err != nil {
		s.t.Fatal(err)
	}
	if r.Status != c.want || readyOf(o) != c.ready {
		s.t.Errorf("%s after %q: kstatus computes %s and Ready is %s, want %s and %s\n%s",
			name, c.script, r.Status, readyOf(o), c.want, c.ready, text(o))
	}
	if got := s.passed(name, a.version, o.GetResourceVersion()); got != c.passed {
		s.t.Errorf("%s during %q: Ready was %q, want %q", name, c.script, got, c.passed)
	}
}

func (s *fixture) awaitEnd(name string, a applied, c change) (o *unstructured.Unstructured) {
	s.t.Helper()
	words := strings.Fields(c.script[strings.LastIndex(c.script, ",")+1:])
	last, number := words[len(words)-1], int64(strings.Count(c.script, ","))
	await.Until(s.t, fmt.Sprintf("%s has run the script %q", name, c.script), func() bool {
		if o = s.actors.latest(name); o == nil {
			return false
		}
		next, _, _ := unstructured.NestedInt64(o.Object, "status", "next")
		return field(o, "status", "scriptID") == a.scriptID && field(o, "status", "outcome") == last && next == number
	})
	return o
}

// passed returns the values of Ready in the statuses between two versions, without
// repetitions and without the last one.
func (s *fixture) passed(name, from, to string) string {
	var values []string
	for v := range s.actors.statuses(name, s.checker) {
		at, ready := v.object.GetResourceVersion(), readyOf(v.object)
		if number(at) > number(from) && number(at) <= number(to) && (len(values) == 0 || values[len(values)-1] != ready) {
			values = append(values, ready)
		}
	}
	if len(values) == 0 {
		return ""
	}
	return strings.Join(values[:len(values)-1], " ")
}

// expectNoViolation checks every version of every actor.
func (s *fixture) expectNoViolation() {
	s.t.Helper()
	n := s.actors.checkAll(s.t, s.checker, s.children)
	s.t.Logf("%d statuses", n)
}

func readyOf(o *unstructured.Unstructured) string {
	c := conditionOf(o, "Ready")
	return fmt.Sprintf("%v/%v", c["status"], c["reason"])
}

// deleteAll deletes the actors and waits for their cleanup.
func (s *fixture) deleteAll() {
	s.t.Helper()
	resource := objects.Resource(actors).Namespace(s.ns)
	if err := resource.DeleteCollection(s.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		s.t.Fatal(err)
	}
	await.Until(s.t, "every actor is removed", func() bool {
		list, err := resource.List(s.t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
}

func steps(script string) (out []any) {
	for s := range strings.SplitSeq(script, ",") {
		out = append(out, s)
	}
	return out
}
