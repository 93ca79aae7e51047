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
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

var actors = schema.GroupVersionResource{Group: "kstatus.thole.dev", Version: "v1", Resource: "actors"}

const again = "kstatus.thole.dev/again"

// stage is a running host with the actor plugin, and what is seen of it.
type stage struct {
	t                *testing.T
	ns               string
	judge            judge
	actors, children *record
}

func newStage(t *testing.T) *stage {
	t.Helper()
	installCRD(t, "testdata/actor/crd.yaml", actors)
	wasm := wasmbuild.Build(t, wasmbuild.TinyGo, "host/internal/kstatustest/testdata/actor")
	ns := namespace(t)
	s := &stage{
		t: t, ns: ns, judge: newJudge([]string{"Degraded"}, []string{"Synced"}, actorMatched),
		actors: watching(t, actors, ns), children: watching(t, configMaps, ns),
	}
	thole(t, ns, "actor", wasm)
	return s
}

// actorMatched says what an actor's status has against being current: it tells
// how the run ended, and what the run saw.
func actorMatched(v version, child *unstructured.Unstructured) error {
	verdict, scene := field(v.object, "status", "verdict"), field(v.object, "status", "scene")
	seen, _, _ := unstructured.NestedInt64(v.object.Object, "status", "seen")
	switch {
	case seen != v.object.GetGeneration():
		return fmt.Errorf("the run saw generation %d of %d", seen, v.object.GetGeneration())
	case verdict == "empty" && !said(v.object) && (v.before == nil || conditionOf(v.before, "Ready")["status"] != "True"):
		return errors.New("the run said nothing, and the object was not Ready before")
	case !slices.Contains([]string{"success", "after", "empty"}, verdict):
		return fmt.Errorf("the run ended in %s", verdict)
	case field(child, "data", "scene") != scene:
		return fmt.Errorf("its child is of scene %q, not %q", field(child, "data", "scene"), scene)
	}
	return nil
}

// said says whether Ready is what a script said, of it or of a condition that
// it is summarized from.
func said(o *unstructured.Unstructured) bool { return conditionOf(o, "Ready")["reason"] == "Played" }

func (s *stage) create(name, script string) {
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

// cue is where an act begins.
type cue struct {
	scene string // what the actor's status will call it
	after string // the resourceVersion of the change that began it
}

// begin changes an actor, by a new spec or by the annotation alone. Take 0 is
// that of create.
func (s *stage) begin(name string, take int, a act) cue {
	s.t.Helper()
	switch {
	case take == 0:
		return cue{"1/", "0"}
	case a.again:
		annotation := fmt.Sprintf("%d:%s", take, a.script)
		o := s.patch(name, types.MergePatchType, map[string]any{"metadata": annotations(annotation)})
		return cue{fmt.Sprintf("%d/%s", o.GetGeneration(), annotation), o.GetResourceVersion()}
	default:
		o := s.patch(name, types.MergePatchType, map[string]any{
			"metadata": annotations(nil),
			"spec":     map[string]any{"take": take, "script": steps(a.script)},
		})
		return cue{fmt.Sprintf("%d/", o.GetGeneration()), o.GetResourceVersion()}
	}
}

func annotations(value any) map[string]any {
	return map[string]any{"annotations": map[string]any{again: value}}
}

func (s *stage) patch(name string, how types.PatchType, patch any, subresources ...string) *unstructured.Unstructured {
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
// a generation, which the checkers would complain about.
func (s *stage) addForeignCondition(name string) {
	s.t.Helper()
	s.patch(name, types.JSONPatchType, []map[string]any{{"op": "add", "path": "/status/conditions/-", "value": map[string]any{
		"type": "Foreign", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}, "status")
}

// expectEnd waits for the last step of a scene and compares where it led to,
// and what the object passed on the way there.
func (s *stage) expectEnd(name string, c cue, a act) {
	s.t.Helper()
	o := s.awaitEnd(name, c, a)
	r, err := status.Compute(o)
	if err != nil {
		s.t.Fatal(err)
	}
	if r.Status != a.want || readyOf(o) != a.ready {
		s.t.Errorf("%s after %q: kstatus says %s and Ready is %s, want %s and %s\n%s",
			name, a.script, r.Status, readyOf(o), a.want, a.ready, text(o))
	}
	if got := s.passed(name, c.after, o.GetResourceVersion()); got != a.passed {
		s.t.Errorf("%s, on its way through %q, was Ready %q, want %q", name, a.script, got, a.passed)
	}
}

func (s *stage) awaitEnd(name string, c cue, a act) (o *unstructured.Unstructured) {
	s.t.Helper()
	words := strings.Fields(a.script[strings.LastIndex(a.script, ",")+1:])
	last, number := words[len(words)-1], int64(strings.Count(a.script, ","))
	await.Until(s.t, fmt.Sprintf("%s plays %q to its end", name, a.script), func() bool {
		if o = s.actors.latest(name); o == nil {
			return false
		}
		next, _, _ := unstructured.NestedInt64(o.Object, "status", "next")
		return field(o, "status", "scene") == c.scene && field(o, "status", "verdict") == last && next == number
	})
	return o
}

// passed tells Ready of the statuses between two versions, each change once,
// without the last.
func (s *stage) passed(name, from, to string) string {
	var way []string
	for v := range s.actors.statuses(name, s.judge) {
		at, ready := v.object.GetResourceVersion(), readyOf(v.object)
		if number(at) > number(from) && number(at) <= number(to) && (len(way) == 0 || way[len(way)-1] != ready) {
			way = append(way, ready)
		}
	}
	if len(way) == 0 {
		return ""
	}
	return strings.Join(way[:len(way)-1], " ")
}

// expectSound holds all that was seen against the checkers.
func (s *stage) expectSound() {
	s.t.Helper()
	n := s.actors.expect(s.t, s.judge, s.children)
	s.t.Logf("%d statuses", n)
}

func readyOf(o *unstructured.Unstructured) string {
	c := conditionOf(o, "Ready")
	return fmt.Sprintf("%v/%v", c["status"], c["reason"])
}

// deleteAll deletes the actors and waits until they have been cleaned up.
func (s *stage) deleteAll() {
	s.t.Helper()
	resource := objects.Resource(actors).Namespace(s.ns)
	if err := resource.DeleteCollection(s.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		s.t.Fatal(err)
	}
	await.Until(s.t, "all actors are gone", func() bool {
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
