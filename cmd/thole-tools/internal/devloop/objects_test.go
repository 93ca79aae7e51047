package devloop

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"
)

// objectOf parses an object; "" is none.
func objectOf(t *testing.T, text string) *object {
	t.Helper()
	if text == "" {
		return nil
	}
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &object{}
	if err := o.UnmarshalJSON(asJSON); err != nil {
		t.Fatal(err)
	}
	return o
}

const (
	managerYAML = `
apiVersion: example.thole.dev/v1
kind: PodManager
metadata: {name: web, uid: a, generation: 1}
spec: {image: "nginx:1.29", env: [{name: A, value: "1"}]}
`
	podYAML = `
apiVersion: v1
kind: Pod
metadata:
  name: web
  uid: b
  managedFields: [{manager: thole/podmanager/podmanager, operation: Apply}]
  ownerReferences: [{apiVersion: example.thole.dev/v1, kind: PodManager, name: web, uid: a, controller: true}]
status: {phase: Pending}
`
	eventYAML = `
apiVersion: v1
kind: Event
metadata: {name: web.1}
type: Normal
reason: PodCreated
message: "created\n  pod web"
involvedObject: {apiVersion: example.thole.dev/v1, kind: PodManager, name: web}
`
)

func TestDescribeChange(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		existing bool
		want     []string
	}{
		"created":  {new: podYAML, want: []string{"object: pod/web: created by thole/podmanager/podmanager, owned by podmanager/web"}},
		"existing": {new: podYAML, existing: true},
		"gone":     {old: podYAML, want: []string{"object: pod/web: gone"}},
		"the same": {old: podYAML, new: podYAML},
		"bookkeeping": {
			old: podYAML, new: strings.Replace(podYAML, "uid: b", "uid: b\n  resourceVersion: '7'\n  annotations: {thole.dev/applied: x}", 1),
		},
		"recreated": {
			old: podYAML, new: strings.Replace(podYAML, "uid: b", "uid: c", 1),
			want: []string{"object: pod/web: gone", "object: pod/web: created by thole/podmanager/podmanager, owned by podmanager/web"},
		},
		"phase": {
			old: podYAML, new: strings.Replace(podYAML, "Pending", "Running", 1),
			want: []string{"object: pod/web: status: phase Pending -> Running"},
		},
		"spec": {
			old: managerYAML, new: strings.NewReplacer("1.29", "1.30", `"1"`, `""`).Replace(managerYAML),
			want: []string{`object: podmanager/web: spec: env[A].value 1 -> "", image nginx:1.29 -> nginx:1.30`},
		},
		"metadata": {
			old:  managerYAML,
			new:  strings.Replace(managerYAML, "uid: a", "uid: a, labels: {tier: front}, annotations: {note: two words}", 1),
			want: []string{"object: podmanager/web: labels: tier front", `object: podmanager/web: annotations: note "two words"`},
		},
		"finalizers": {
			old:  strings.Replace(managerYAML, "uid: a", "uid: a, finalizers: [old]", 1),
			new:  strings.Replace(managerYAML, "uid: a", "uid: a, finalizers: [new]", 1),
			want: []string{"object: podmanager/web: finalizer new added", "object: podmanager/web: finalizer old removed"},
		},
		"deletion": {
			old:  strings.Replace(managerYAML, "uid: a", "uid: a, finalizers: [f]", 1),
			new:  strings.Replace(managerYAML, "uid: a", "uid: a, finalizers: [f], deletionTimestamp: '2026-11-20T10:00:00Z'", 1),
			want: []string{"object: podmanager/web: deletion requested, waits for its finalizers"},
		},
		"event": {new: eventYAML, want: []string{"event: PodCreated on podmanager/web: created pod web"}},
		"warning": {
			new:  strings.Replace(eventYAML, "Normal", "Warning", 1),
			want: []string{"event: bad: PodCreated on podmanager/web: created pod web"},
		},
		"event again": {
			old: eventYAML, new: eventYAML + "count: 3\n",
			want: []string{"event: PodCreated on podmanager/web: created pod web (3 times)"},
		},
		"event as before":    {old: eventYAML, new: eventYAML},
		"event that expired": {old: eventYAML},
	} {
		t.Run(name, func(t *testing.T) {
			expectLines(t, describeChange(&objectChange{objectOf(t, c.old), objectOf(t, c.new), c.existing}), c.want...)
		})
	}
}

func TestDescribeConditions(t *testing.T) {
	const readyNow = "{type: Ready, status: 'True', reason: Succeeded, message: all is well, lastTransitionTime: '2026-11-20T10:00:00Z'}"
	for name, c := range map[string]struct {
		old, new string
		want     []string
	}{
		"ready":     {new: readyNow, want: []string{"object: good: podmanager/web: Ready=True Succeeded"}},
		"unchanged": {old: readyNow, new: strings.Replace(readyNow, "10:00", "11:00", 1)},
		"stalled": {
			old: readyNow,
			new: "{type: Ready, status: 'False', reason: NoImage, message: name one}, {type: Stalled, status: 'True', reason: NoImage, message: name one}",
			want: []string{
				"object: wait: podmanager/web: Ready=False NoImage: name one",
				"object: bad: podmanager/web: Stalled=True NoImage", // its message is a line above
			},
		},
		"removed": {old: "{type: Stalled, status: 'True', reason: NoImage}", want: []string{"object: podmanager/web: condition Stalled removed"}},
	} {
		t.Run(name, func(t *testing.T) {
			with := func(conditions string) *object {
				return objectOf(t, managerYAML+"status: {conditions: ["+conditions+"]}\n")
			}
			expectLines(t, describeChange(&objectChange{old: with(c.old), new: with(c.new)}), c.want...)
		})
	}
}

func TestDifference(t *testing.T) {
	from := map[string]any{"a": "1", "b": []any{"x"}, "c": map[string]any{"d": true}, "gone": nil}
	to := map[string]any{"a": int64(1), "b": []any{"x", "y"}, "e": "f", "g": strings.Repeat("ä", 70), "h": "i"}
	want := `b[1] y, c.d removed, e f, g ` + strings.Repeat("ä", 28) + `..., and 1 more`
	if got := difference(from, to); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWatchReportsWhatConcernsThePlugin(t *testing.T) {
	other := strings.ReplaceAll(managerYAML, "PodManager", "Other")
	for name, c := range map[string]struct {
		object string
		want   bool
	}{
		"primary":              {managerYAML, true},
		"controlled":           {podYAML, true},
		"event on a primary":   {eventYAML, true},
		"other kind":           {other, false},
		"controlled by others": {strings.ReplaceAll(podYAML, "kind: PodManager", "kind: Other"), false},
		"event on others":      {strings.ReplaceAll(eventYAML, "kind: PodManager", "kind: Other"), false},
	} {
		var got []*objectChange
		w := newObjectWatch(func(c *objectChange) { got = append(got, c) })
		o := objectOf(t, c.object)
		w.primaries.add(objectOf(t, managerYAML).GroupVersionKind().GroupKind())
		w.changed(nil, o, true)
		w.changed(cache.DeletedFinalStateUnknown{Obj: o}, nil, false)
		if len(got) > 0 != c.want {
			t.Errorf("%s: %d changes are reported", name, len(got))
		} else if c.want && (!got[0].existing || got[1].old != o || got[1].existing) {
			t.Errorf("%s: reported are %+v and %+v", name, got[0], got[1])
		}
	}
}

// TestKindThatMayNotBeListedDelaysNothing has an account without rights. The time is
// that of the test's deadline: the wait for a kind would be longer.
func TestKindThatMayNotBeListedDelaysNothing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/api/v1" {
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"events","kind":"Event","namespaced":true,"verbs":["list","watch"]}]}`)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	}))
	t.Cleanup(server.Close)
	client, err := newClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), servedTimeout/2)
	s := &session{client: client, watch: objectWatch{kinds: map[schema.GroupVersionKind]bool{}, running: &sync.WaitGroup{}}}
	s.followKind(ctx, eventKind)
	if ctx.Err() != nil {
		t.Error("followKind waited for objects that may not be listed")
	}
	cancel()
	s.watch.running.Wait()
}
