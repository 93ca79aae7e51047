package effect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// podTemplates have lists of every sort, and no controller of their own.
var podTemplates = kind("v1", "PodTemplate", "podtemplates", true, false)

// remembering makes a controller leave no annotation on what it owns.
func remembering(t Target) Target {
	c := *t.Controller
	c.Applied = abi.AppliedMemory
	t.Controller = &c
	return t
}

// literalKinds is allKinds with values as the server stores them.
func literalKinds() *abi.Result {
	in := *allKinds
	in.Apply = nil
	for _, a := range allKinds.Apply {
		a.Object = []byte(strings.ReplaceAll(string(a.Object), "1000m", "1"))
		in.Apply = append(in.Apply, a)
	}
	return &in
}

// unannotated is restarted without annotations.
func unannotated(t *testing.T) (*world, Target) {
	w := newCluster(t)
	target := remembering(w.owner(list(pod, configMap, service, deployment, secret, widget), nil))
	w.intents(target, literalKinds())
	seeAll(w)
	w.wire.take()
	w.start()
	return w, target
}

func TestContentShowsThatAnApplyWouldChangeNothing(t *testing.T) {
	w, target := unannotated(t)
	for o := range w.store.All(pod.Kind) {
		if len(o.Annotations) > 0 {
			t.Errorf("the annotations are %v", o.Annotations)
		}
	}
	w.intents(target, literalKinds())
	w.expectSent()
	for _, r := range []object.Resource{pod, service} { // the cache has not kept managedFields
		for o := range w.store.All(r.Kind) {
			w.store.put(parse(t, string(o.Raw)))
		}
	}
	w.start()
	w.intents(target, literalKinds())
	w.expectSent("GET /api/v1/namespaces/"+w.ns+"/pods/web", "GET /api/v1/namespaces/"+w.ns+"/services/svc")
}

// The server stores the quantity in another form.
func TestContentInAnotherFormIsAppliedOnce(t *testing.T) {
	w := newCluster(t)
	target := remembering(w.owner(list(pod), nil))
	in := apply(podObject, "web:1")
	w.intents(target, in)
	created := w.seen(pod, "web")
	w.start()
	w.wire.take()
	for _, want := range []string{"PATCH", ""} {
		w.intents(target, in)
		if got := w.wire.methods(); got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
	if now := w.live(pod, "web"); now.ResourceVersion != created.ResourceVersion {
		t.Errorf("it has changed: %s", now.Raw)
	}
}

func TestContentShowsWhatOthersHaveChanged(t *testing.T) {
	for name, c := range map[string]struct {
		resource object.Resource
		name     string
		edit     string
		sent     string
	}{
		"a wanted value":                      {configMap, "c", `{"data":{"k":"theirs"}}`, "PATCH"},
		"a value beside defaults":             {pod, "web", `{"metadata":{"labels":{"app":"theirs"}}}`, "PATCH"},
		"an addition to an atomic map":        {service, "svc", `{"spec":{"selector":{"theirs":"1"}}}`, "PATCH"},
		"an addition to an atomic list":       {widget, "part", `{"spec":{"parts":[{"a":"1","b":"theirs"}]}}`, "PATCH"},
		"a removed field":                     {widget, "part", `{"spec":{"size":null}}`, "PATCH"},
		"an annotation like that of the host": {configMap, "c", `{"metadata":{"annotations":{"thole.dev/applied":"theirs"}}}`, ""},
		"a field that is not in the intent":   {deployment, "d", `{"spec":{"paused":true}}`, ""},
		"a label that is not in the intent":   {pod, "web", `{"metadata":{"labels":{"theirs":"1"}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, target := unannotated(t)
			w.edit(c.resource, c.name, "", c.edit)
			w.seen(c.resource, c.name)
			w.wire.take()
			w.intents(target, literalKinds())
			if got := w.wire.methods(); got != c.sent {
				t.Errorf("sent %q, want %q", got, c.sent)
			}
		})
	}
}

// The manifest of a new revision says otherwise, and the objects have not changed.
func TestTheAnnotationIsRemovedAndSetWhenTheManifestChanges(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			w := newCluster(t)
			annotated := w.owner(list(configMap), nil)
			in := apply(configObject, "v")
			for i, target := range []Target{annotated, remembering(annotated), annotated} {
				for _, want := range []string{"PATCH", ""} {
					w.intents(target, in)
					if got := w.wire.methods(); got != want {
						t.Errorf("revision %d sent %q, want %q", i, got, want)
					}
					w.seen(configMap, "c")
				}
				if _, has := w.live(configMap, "c").Annotations[AppliedAnnotation]; has != (target == annotated) {
					t.Errorf("revision %d: annotated is %v", i, has)
				}
				if restart {
					w.start()
				}
				w.wire.take()
			}
		})
	}
}

// Whatever others do, and whatever the intents before were: after a run, and with no memory of
// those before, an apply of the intent changes nothing.
func TestContentHidesNothingThatAnApplyWouldChange(t *testing.T) {
	w := newCluster(t)
	target := remembering(w.owner(list(podTemplates), nil))
	at := location{Resource: podTemplates, key: w.key(podTemplates, "t"), owned: true}
	quiet := 0
	rapid.Check(t, func(rt *rapid.T) {
		if w.live(podTemplates, "t") != nil {
			w.remove(podTemplates, "t")
			w.seen(podTemplates, "t")
		}
		parts := templateParts{image: "1"}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			w.start()
			if rapid.Bool().Draw(rt, "another intent") {
				parts.redraw(rt)
			}
			if w.live(podTemplates, "t") != nil && rapid.IntRange(0, 3).Draw(rt, "edit") == 0 {
				edited := parts
				edited.redraw(rt)
				w.edit(podTemplates, "t", "", edited.String())
			}
			in := parts.String()
			before := w.seen(podTemplates, "t")
			w.wire.take()
			w.intents(target, apply("%s", in))
			if before != nil && w.wire.methods() == "" {
				quiet++
			}
			now := w.seen(podTemplates, "t")
			s := newSession(w.Performer, target)
			a, _, err := s.planApply(t.Context(), abi.Apply{Object: []byte(in)})
			if err != nil {
				rt.Fatal(err)
			}
			body, err := s.request(a, now, "")
			if err != nil {
				rt.Fatal(err)
			}
			again, err := w.admin.patch(t.Context(), podTemplates, at.key, patch{patchType: types.ApplyPatchType, manager: w.manager(target.Controller), force: true, body: body})
			if err != nil {
				rt.Fatal(err)
			}
			if again.ResourceVersion != now.ResourceVersion {
				rt.Fatalf("an apply of\n%s\nhas changed\n%s\nto\n%s", in, now.Raw, again.Raw)
			}
		}
	})
	if quiet == 0 {
		t.Error("no run has seen that it had nothing to send")
	}
}

// templateParts are the parts of a PodTemplate that its drafts differ in.
type templateParts struct {
	labels              map[string]string
	image               string
	args                []string
	env, ports, volumes []map[string]any
}

// redraw draws one of the parts, which has a few of the same elements in any order.
func (p *templateParts) redraw(rt *rapid.T) {
	value := rapid.SampledFrom([]string{"1", "2"})
	part := rapid.SampledFrom([]string{"labels", "image", "args", "env", "ports", "volumes"}).Draw(rt, "part")
	some := func(from ...string) []string {
		return rapid.Permutation(from).Draw(rt, "order")[:rapid.IntRange(0, len(from)).Draw(rt, "number")]
	}
	switch part {
	case "labels":
		p.labels = map[string]string{}
		for _, name := range some("a", "b") {
			p.labels[name] = value.Draw(rt, name)
		}
	case "image":
		p.image = value.Draw(rt, "image")
	case "args":
		p.args = some("a", "b")
	case "env":
		p.env = nil
		for _, name := range some("a", "b", "c") {
			p.env = append(p.env, map[string]any{"name": name, "value": value.Draw(rt, name)})
		}
	case "ports":
		p.ports = nil
		for _, protocol := range some("TCP", "UDP", "") {
			port := map[string]any{"name": "p" + strings.ToLower(protocol), "containerPort": 80}
			if protocol != "" {
				port["protocol"] = protocol
			} else {
				port["containerPort"] = 81 // the server fills in the protocol, which is a key
			}
			p.ports = append(p.ports, port)
		}
	case "volumes":
		p.volumes = nil
		for _, name := range some("a", "b") {
			p.volumes = append(p.volumes, map[string]any{"name": name, "emptyDir": map[string]any{}})
		}
	}
}

func (p *templateParts) String() string {
	container := map[string]any{"name": "main", "image": "x:" + p.image}
	spec := map[string]any{"containers": []any{container}}
	if len(p.args) > 0 {
		container["args"] = p.args
	}
	if len(p.env) > 0 {
		container["env"] = p.env
	}
	if len(p.ports) > 0 {
		container["ports"] = p.ports
	}
	if len(p.volumes) > 0 {
		spec["volumes"] = p.volumes
	}
	if len(p.labels) > 0 {
		spec["nodeSelector"] = p.labels
	}
	text, _ := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "PodTemplate", "metadata": map[string]any{"name": "t", "labels": p.labels}, "template": map[string]any{"spec": spec},
	})
	return string(text)
}

func TestComparisonOfAFieldSet(t *testing.T) {
	const set = `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{".":{},"f:atomic":{},"f:null":{},
"f:set":{"v:\"x\"":{},"v:2":{}},"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:name":{}},"k:{\"port\":80,\"protocol\":\"UDP\"}":{"f:port":{},"f:protocol":{}}}}}`
	const wanted = `{"metadata":{"labels":{"a":"1"}},"spec":{"atomic":[{"b":1,"a":2}],"null":null,"set":["x",2],"ports":[{"port":80,"name":"n"},{"port":80,"protocol":"UDP"}]}}`
	const have = `{"metadata":{"labels":{"theirs":"1","a":"1"}},"spec":{"theirs":{},"atomic":[{"a":2,"b":1}],
"set":["theirs","x",3,2],"ports":[{"port":81,"protocol":"TCP"},{"port":80,"protocol":"TCP","name":"n","theirs":1},{"port":80,"protocol":"UDP"}]}}`
	if !new(comparison).isSame([]byte(set), []byte(wanted), []byte(have)) {
		t.Fatal("the object has what the intent wants")
	}
	for _, c := range []struct{ what, old, new string }{
		{"another value", `"a":"1"}},"spec":{"theirs`, `"a":"2"}},"spec":{"theirs`},
		{"no value", `"atomic":[{"a":2,"b":1}],`, ``},
		{"an addition to an atomic list", `{"a":2,"b":1}`, `{"a":2,"b":1,"theirs":1}`},
		{"a value that is to have none", `"theirs":{},`, `"null":{},`},
		{"another order of a set", `["theirs","x",3,2]`, `["theirs",2,3,"x"]`},
		{"another order of elements with keys", `{"port":80,"protocol":"TCP","name":"n","theirs":1},{"port":80,"protocol":"UDP"}`, `{"port":80,"protocol":"UDP"},{"port":80,"protocol":"TCP","name":"n"}`},
		{"another value of an element", `"name":"n","theirs":1`, `"name":"theirs"`},
		{"no such element", `,{"port":80,"protocol":"UDP"}`, ``},
		{"no list", `["theirs","x",3,2]`, `{}`},
	} {
		changed := strings.Replace(have, c.old, c.new, 1)
		if changed == have || new(comparison).isSame([]byte(set), []byte(wanted), []byte(changed)) {
			t.Errorf("the object has %s: %s", c.what, changed)
		}
	}
	for _, c := range []struct{ what, old, new string }{
		{"a label", `"labels":{"a":"1"}`, `"labels":{}`},
		{"an atomic list", `"atomic":[{"b":1,"a":2}],`, ``},
		{"an element of a set", `["x",2]`, `["x"]`},
		{"an element with keys", `,{"port":80,"protocol":"UDP"}`, ``},
		{"a field of an element", `,"name":"n"`, ``},
		{"null", `"null":null,`, ``},
	} {
		changed := strings.Replace(wanted, c.old, c.new, 1)
		for _, namesOnly := range []bool{false, true} {
			if changed == wanted || (&comparison{namesOnly: namesOnly}).isSame([]byte(set), []byte(changed), []byte(have)) {
				t.Errorf("the intent lacks %s: %s", c.what, changed)
			}
		}
	}
	if !(&comparison{namesOnly: true}).isSame([]byte(set), []byte(wanted), []byte(strings.ReplaceAll(wanted, `"1"`, `"2"`))) {
		t.Error("the names are the same")
	}
}

func TestCreateWithoutTheAnnotation(t *testing.T) {
	w := newCluster(t)
	target := remembering(w.owner(list(configMap), nil))
	in := creating(apply(configObject, "v"))
	expect := func(what string, in *abi.Result, reason string) {
		t.Helper()
		_, failure := w.PerformIntents(t.Context(), target, in)
		if failure == nil && reason != "" || failure != nil && failure.Reason != reason {
			t.Errorf("%s: got %+v, want the reason %q", what, failure, reason)
		}
	}
	w.wire.loses = func(r request) bool { return r.method == "POST" }
	if _, failure := w.PerformIntents(t.Context(), target, in); failure == nil || !failure.Uncertain {
		t.Fatalf("got %+v, want a lost reply", failure)
	}
	w.wire.loses = nil
	expect("the reply was lost", in, "")
	w.start()
	w.seen(configMap, "c")
	expect("the host was restarted", in, "")
	w.edit(configMap, "c", "", `{"data":{"k":"theirs","theirs":"1"}}`)
	w.seen(configMap, "c")
	expect("others have changed a value", in, "")
	expect("others have the only field that the intent lacks", creating(apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`)), "")
	w.remove(configMap, "c")
	w.seen(configMap, "c")
	w.start()
	w.intents(target, in)
	w.seen(configMap, "c")
	expect("this host has made it with another content", creating(apply(configObject, "other")), "AlreadyExists")
	w.start()
	expect("an intent with a member that the object does not have", creating(apply(strings.Replace(configObject, `"data"`, `"immutable":true,"data"`, 1), "v")), "AlreadyExists")
	expect("an intent with a label that the object does not have", creating(apply(strings.Replace(configObject, `"c"`, `"c","labels":{"a":"b"}`, 1), "v")), "AlreadyExists")
	w.remove(configMap, "c")
	w.create(configMap, fmt.Sprintf(`{"metadata":{"name":"c","ownerReferences":[%s]},"data":{"k":"v"}}`, controllerReference(target.Object)))
	w.seen(configMap, "c")
	expect("somebody else has made it for the primary", in, "AlreadyExists")
}

func TestReplaceWithoutTheAnnotation(t *testing.T) {
	w := newCluster(t)
	target := remembering(w.owner(list(configMap), nil))
	w.intents(target, immutable("1"))
	old := w.seen(configMap, "c")
	w.intents(target, immutable("2"))
	now := w.seen(configMap, "c")
	if now.UID == old.UID || field(now, "data", "k") != `"2"` {
		t.Fatalf("it is not replaced: %s", now.Raw)
	}
	w.start()
	w.intents(target, immutable("2"))
	if w.live(configMap, "c").UID != now.UID {
		t.Error("it is replaced although it is as it is wanted")
	}
	w.edit(configMap, "c", "", `{"metadata":{"labels":{"theirs":"1"}}}`)
	w.seen(configMap, "c")
	w.intents(target, immutable("2"))
	if w.live(configMap, "c").UID != now.UID {
		t.Error("it is replaced because somebody has labelled it")
	}
}

// Another host has applied other values of the same fields, which the cache does not show yet.
func TestContentOfACacheThatIsBehindShowsNothing(t *testing.T) {
	w, target := unannotated(t)
	w.store.put(parse(t, string(w.live(service, "svc").Raw))) // without managedFields
	w.intents(target, apply("%s", strings.Replace(serviceObject, "web", "other", 1)))
	w.wire.take()
	w.start()
	w.intents(target, apply("%s", serviceObject))
	if got := w.wire.methods(); got != "GET PATCH" {
		t.Errorf("sent %q", got)
	}
}

// The kind moves from owns to writes. Nobody else shares the object, which the primary has created:
// a result that does not name it leaves it as it is.
func TestFieldsWithoutTheAnnotationAreHandedOver(t *testing.T) {
	w := newCluster(t)
	target := remembering(w.owner(list(configMap), nil))
	w.intents(target, data("a=1", "b=1"))
	w.seen(configMap, "c")
	target.Controller = controller(nil, list(configMap))
	w.start()
	w.succeed(target, data("a=1"))
	w.seen(configMap, "c")
	w.expectData("a=1")
	if managers := fmt.Sprint(w.live(configMap, "c").ManagedFields); strings.Contains(managers, w.manager(target.Controller)+" ") {
		t.Errorf("the managers are %s", managers)
	}
	w.succeed(target, creating(data("a=1")))
	w.succeed(target, &abi.Result{})
	w.expectData("a=1")
}

// The manifest of a new revision says otherwise, and the name of what is created is fixed.
func TestCreateRecognizesAnObjectWhenTheManifestChanges(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprintf("restart %v, first with the annotation %v", restart, first), func(t *testing.T) {
				w := newCluster(t)
				annotated := w.owner(list(configMap), nil)
				targets := []Target{remembering(annotated), annotated}
				if first {
					targets = []Target{annotated, remembering(annotated)}
				}
				in := creating(apply(configObject, "v"))
				for _, target := range targets {
					w.intents(target, in)
					w.seen(configMap, "c")
					if restart {
						w.start()
					}
				}
				if first { // the annotation is there, and shows another content
					_, failure := w.PerformIntents(t.Context(), targets[1], creating(apply(configObject, "other")))
					if failure == nil || failure.Reason != "AlreadyExists" {
						t.Errorf("another content: %+v", failure)
					}
				}
			})
		}
	}
}

// The record is about an object that is gone.
func TestCreateWithoutTheAnnotationAfterAnotherObject(t *testing.T) {
	w := newCluster(t)
	target := remembering(w.owner(list(configMap), nil))
	w.intents(target, creating(apply(configObject, "v")))
	w.remove(configMap, "c")
	w.seen(configMap, "c")
	in := creating(apply(configObject, "other"))
	w.wire.loses = func(r request) bool { return r.method == "POST" }
	if _, failure := w.PerformIntents(t.Context(), target, in); failure == nil || !failure.Uncertain {
		t.Fatalf("got %+v, want a lost reply", failure)
	}
	w.wire.loses = nil
	w.intents(target, in)
}

// The cache is behind, and has not kept which fields are whose.
func TestTheLabelOfPruningStaysWhileTheCacheIsBehind(t *testing.T) {
	w := newCluster(t)
	annotated := pruning(w.owner(list(configMap), nil))
	for _, target := range []Target{annotated, remembering(annotated)} {
		w.intents(target, apply(configObject, "v"))
		w.store.put(parse(t, string(w.live(configMap, "c").Raw)))
		w.edit(configMap, "c", "", `{"metadata":{"annotations":{"theirs":"1","thole.dev/applied":"theirs"}}}`)
		w.intents(target, apply(configObject, "other"))
		if got := w.live(configMap, "c"); got.Labels[abi.LabelAppliedBy] == "" {
			t.Errorf("the labels are %v", got.Labels)
		}
		w.remove(configMap, "c")
		w.seen(configMap, "c")
	}
}

// The time of a comparison grows with the square of the length.
func TestAComparisonOfALargeListEnds(t *testing.T) {
	list := func(n int) (set, value []byte) {
		var names, elements []string
		for i := range n {
			names = append(names, fmt.Sprintf(`"k:{\"name\":\"n%d\"}":{".":{},"f:name":{}}`, i))
			elements = append(elements, fmt.Sprintf(`{"name":"n%d"}`, n-1-i))
		}
		return []byte("{" + strings.Join(names, ",") + "}"), []byte("[" + strings.Join(elements, ",") + "]")
	}
	for n, want := range map[int]bool{300: true, 20_000: false} {
		set, value := list(n)
		if got := new(comparison).isSame(set, value, value); got != want {
			t.Errorf("%d elements: the same: %v", n, got)
		}
		if got := new(comparison).owns(set, value); got != want {
			t.Errorf("%d elements: owned: %v", n, got)
		}
	}
}
