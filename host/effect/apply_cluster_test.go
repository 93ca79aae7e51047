package effect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func list(r ...object.Resource) []object.Resource { return r }

func apply(object string, args ...any) Intents {
	return Intents{Apply: []abi.Apply{{Object: fmt.Appendf(nil, object, args...)}}}
}

func adopt(in Intents) Intents {
	in.Apply[0].Adopt = true
	return in
}

const podObject = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"web"}},
"spec":{"containers":[{"name":"main","image":%q,"resources":{"requests":{"cpu":"1000m"}},"ports":[{"containerPort":80}],"args":["a","b"]}]}}`

const (
	configObject  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":%q}}`
	serviceObject = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"svc"},"spec":{"selector":{"app":"web"},"ports":[{"port":80}]}}`
)

// owner creates a Widget that may own and write the given kinds.
func (w *world) owner(owns, writes []object.Resource) Target {
	w.Helper()
	o := w.create(widget, `{"metadata":{"name":"w"},"spec":{"size":1}}`)
	w.store.put(o)
	return Target{controller(owns, writes), o}
}

func TestApplyCreatesAnOwnedChild(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(pod), nil)

	report := w.intents(target, apply(podObject, "web:1"))

	path := "/api/v1/namespaces/" + w.ns + "/pods/web"
	sent := w.expectSent("GET "+path, "PATCH "+path+"?fieldManager=thole%2Fdemo%2Fmain")
	if sent[1].contentType != applyPatch || sent[1].agent != "thole/1.2.3 plugin/demo" {
		t.Errorf("sent %+v", sent[1])
	}
	child := w.seen(pod, "web")
	if owner := child.Controller(); owner == nil || owner.UID != target.Object.UID || !*owner.BlockOwnerDeletion {
		t.Errorf("owner is %v", owner)
	}
	if len(report.Writes) != 1 || report.Writes[0].ResourceVersion != child.ResourceVersion || report.Writes[0].Verb != "apply" {
		t.Errorf("reported %+v, the child is at %s", report.Writes, child.ResourceVersion)
	}

	// The quantity 1000m has become 1 on the server: that is no difference.
	w.intents(target, apply(podObject, "web:1"))
	w.expectSent()
}

// TestApplyOfAnObjectAsItWasRead: a guest may return what it got, with a
// change.
func TestApplyOfAnObjectAsItWasRead(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(pod), nil)
	w.intents(target, apply(podObject, "web:1"))
	read := w.seen(pod, "web")
	text := strings.Replace(string(read.Raw), `"image":"web:1"`, `"image":"web:2"`, 1)
	w.intents(target, Intents{Apply: []abi.Apply{{Object: []byte(text)}}})
	got := w.seen(pod, "web")
	if got.UID != read.UID || !strings.Contains(field(got, "spec", "containers"), `"web:2"`) || len(got.OwnerReferences) != 1 {
		t.Errorf("got %s", got.Raw)
	}
	// Returned as it is now, it asks for what is there.
	w.intents(target, Intents{Apply: []abi.Apply{{Object: got.Raw}}})
	w.seen(pod, "web")
	w.wire.take()
	w.intents(target, Intents{Apply: []abi.Apply{{Object: w.seen(pod, "web").Raw}}})
	w.expectSent()
}

func TestApplyTrustsItsRecordMoreThanAStoreThatIsBehind(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(configObject, "1"))
	w.seen(configMap, "c")
	w.intents(target, apply(configObject, "2"))
	w.wire.take()
	w.intents(target, apply(configObject, "2")) // the store still has 1
	w.expectSent()
	w.seen(configMap, "c")
	w.intents(target, apply(configObject, "2"))
	w.expectSent()
}

func TestApplyWithoutACache(t *testing.T) {
	w := newCluster(t)
	w.store.unsynced = map[abi.Kind]bool{configMap.Kind: true}
	target := w.owner(list(configMap), nil)
	path := "/api/v1/namespaces/" + w.ns + "/configmaps/c"
	w.intents(target, apply(configObject, "1"))
	w.expectSent("GET "+path, "PATCH "+path+"?fieldManager=thole%2Fdemo%2Fmain")
	w.intents(target, apply(configObject, "1"))
	w.expectSent("GET " + path)
}

func TestApplyFollowsTheIntent(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"x":"1"}},"data":{"a":"1","b":"1"}}`))
	w.seen(configMap, "c")

	// A field that the intent no longer has is removed.
	w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"b":"1"}}`))
	got := w.seen(configMap, "c")
	if got.Labels["x"] != "" || field(got, "data") != `{"b":"1"}` {
		t.Errorf("got %s", got.Raw)
	}

	// Somebody else's change of a wanted field is undone, another field of
	// theirs stays.
	w.edit(configMap, "c", "", `{"data":{"b":"2","theirs":"1"}}`)
	w.seen(configMap, "c")
	w.wire.take()
	w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"b":"1"}}`))
	if got := w.seen(configMap, "c"); field(got, "data", "b") != `"1"` || field(got, "data", "theirs") != `"1"` {
		t.Errorf("got %s", got.Raw)
	}
	w.expectSent("PATCH /api/v1/namespaces/" + w.ns + "/configmaps/c?fieldManager=thole%2Fdemo%2Fmain&force=true")

	// A change that does not concern the intent is looked at once; the write
	// changes nothing and is not reported.
	w.edit(configMap, "c", "", `{"data":{"theirs":"2"}}`)
	w.seen(configMap, "c")
	if report := w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"b":"1"}}`)); len(report.Writes) != 0 {
		t.Errorf("reported %+v", report.Writes)
	}
	w.wire.take()
	w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"b":"1"}}`))
	w.expectSent()

	// A deleted child comes back.
	w.remove(configMap, "c")
	w.seen(configMap, "c")
	w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"b":"1"}}`))
	if w.live(configMap, "c") == nil {
		t.Error("the child was not created again")
	}
}

// allKinds is what a restart is tested with: typed kinds with defaults,
// atomic lists and maps, empty objects and quantities.
var allKinds = Intents{Apply: []abi.Apply{
	{Object: fmt.Appendf(nil, podObject, "web:1")},
	{Object: fmt.Appendf(nil, configObject, "v")},
	{Object: []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"type":"Opaque","data":{"k":"dg=="}}`)},
	{Object: []byte(serviceObject)},
	{Object: []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","creationTimestamp":null},"spec":{"selector":{"matchLabels":{"app":"x"}},
"template":{"metadata":{"creationTimestamp":null,"labels":{"app":"x"}},"spec":{"volumes":[{"name":"tmp","emptyDir":{}}],
"containers":[{"name":"main","image":"x","resources":{},"env":[{"name":"A","value":"1"}],"volumeMounts":[{"name":"tmp","mountPath":"/tmp"}]}]}}},"status":{}}`)},
	{Object: []byte(`{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"part"},"spec":{"size":3,"tags":["x"],"parts":[{"a":"1"}]}}`)},
}}

// restarted applies allKinds and starts anew.
func restarted(t *testing.T) (*world, Target, func()) {
	w := newCluster(t)
	target := w.owner(list(pod, configMap, service, deployment, secret, widget), nil)
	w.intents(target, allKinds)
	seen := func() {
		w.seen(pod, "web")
		w.seen(configMap, "c")
		w.seen(secret, "s")
		w.seen(service, "svc")
		w.seen(deployment, "d")
		w.seen(widget, "part")
	}
	seen()
	w.wire.take()
	w.start()
	return w, target, seen
}

func TestApplyAfterARestartWritesNothing(t *testing.T) {
	w, target, _ := restarted(t)
	if report := w.intents(target, allKinds); len(report.Writes) != 0 {
		t.Errorf("wrote %v", report.Writes)
	}
	// What has defaults cannot be compared: who holds the fields is asked.
	w.expectSent("GET /api/v1/namespaces/"+w.ns+"/pods/web", "GET /api/v1/namespaces/"+w.ns+"/services/svc",
		"GET /apis/apps/v1/namespaces/"+w.ns+"/deployments/d")
	w.intents(target, allKinds)
	w.expectSent()
}

func TestApplyAfterARestartRemovesWhatIsNoLongerWanted(t *testing.T) {
	w, target, _ := restarted(t)
	for _, less := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`,
		`{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"part"},"spec":{"size":3}}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"main","image":"web:1","resources":{"requests":{"cpu":"1000m"}},"ports":[{"containerPort":80}],"args":["a","b"]}]}}`,
	} {
		if report := w.intents(target, apply("%s", less)); len(report.Writes) != 1 {
			t.Errorf("wrote %+v for %s", report.Writes, less)
		}
	}
	if c, part, web := w.live(configMap, "c"), w.live(widget, "part"), w.live(pod, "web"); field(c, "data") != "" || field(part, "spec", "tags") != "" || len(web.Labels) != 0 {
		t.Errorf("left\n%s\n%s\n%s", c.Raw, part.Raw, web.Raw)
	}
}

func TestApplyAfterARestartFindsWhatChangedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		resource object.Resource
		name     string
		edit     string
		undone   bool
	}{
		"a wanted value":                {configMap, "c", `{"data":{"k":"theirs"}}`, true},
		"a value with defaults around":  {pod, "web", `{"metadata":{"labels":{"app":"theirs"}}}`, true},
		"an addition to an atomic map":  {service, "svc", `{"spec":{"selector":{"theirs":"1"}}}`, true},
		"an addition to an atomic list": {widget, "part", `{"spec":{"parts":[{"a":"1","b":"theirs"}]}}`, true},
		"a removal":                     {widget, "part", `{"spec":{"size":null}}`, true},
		"the digest":                    {configMap, "c", `{"metadata":{"annotations":{"thole.dev/applied":"theirs"}}}`, true},
		"a field that is not wanted":    {deployment, "d", `{"spec":{"paused":true}}`, false},
		"a label that is not wanted":    {pod, "web", `{"metadata":{"labels":{"theirs":"1"}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, target, seen := restarted(t)
			w.edit(c.resource, c.name, "", c.edit)
			seen()
			report := w.intents(target, allKinds)
			if wrote := len(report.Writes) == 1; wrote != c.undone {
				t.Fatalf("wrote %+v, want a write: %v", report.Writes, c.undone)
			}
			undone := !strings.Contains(string(w.live(c.resource, c.name).Raw), "theirs") && !strings.Contains(c.edit, "paused")
			if undone != c.undone {
				t.Errorf("undone is %v: %s", undone, w.live(c.resource, c.name).Raw)
			}
		})
	}
}

func TestApplyDoesNotTouchTheSuccessorOfItsChild(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(configObject, "v"))
	w.seen(configMap, "c")

	w.remove(configMap, "c")
	_, failure := w.Intents(t.Context(), target, apply(configObject, "v2"))
	if failure == nil || !failure.Conflict {
		t.Errorf("child gone: got %+v", failure)
	}
	w.create(configMap, `{"metadata":{"name":"c"}}`)
	_, failure = w.Intents(t.Context(), target, apply(configObject, "v2"))
	if failure == nil || !failure.Conflict {
		t.Errorf("child replaced: got %+v", failure)
	}
	if got := w.live(configMap, "c"); field(got, "data") != "" || got.Controller() != nil {
		t.Errorf("touched %s", got.Raw)
	}
}

func TestApplySharesWhatNobodyOwns(t *testing.T) {
	w := newCluster(t)
	one := w.owner(nil, list(configMap))
	two := Target{controller(nil, list(configMap)), one.Object}
	two.Controller.Name = "other"
	a := apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"one":"1"}}`)
	b := apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"two":"2"}}`)
	for range 3 {
		w.intents(one, a)
		w.seen(configMap, "c")
		w.intents(two, b)
		w.seen(configMap, "c")
	}
	got := w.live(configMap, "c")
	if field(got, "data") != `{"one":"1","two":"2"}` || len(got.OwnerReferences) != 0 {
		t.Errorf("got %s", got.Raw)
	}
	w.wire.take()
	w.start()
	w.intents(one, a)
	w.intents(two, b)
	for _, r := range w.wire.take() {
		if r.method != "GET" {
			t.Errorf("after a restart sent %s", r)
		}
	}
}
