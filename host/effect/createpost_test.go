package effect

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestCreateMakesWhatAnApplyRefuses(t *testing.T) {
	for _, memory := range []bool{false, true} {
		t.Run(fmt.Sprintf("memory %t", memory), func(t *testing.T) {
			w := newCluster(t)
			target := w.owner(list(pod), nil)
			if memory {
				target = remembering(target)
			}
			w.intents(target, creating(apply(repeated)))
			made := w.live(pod, "web")
			for _, text := range []string{`{"name":"A","value":"1"},{"name":"A","value":"2"}`, `"hostnames":["b"]`, `"name":"b"`} {
				if !strings.Contains(string(made.Raw), text) {
					t.Errorf("it lacks %s: %s", text, made.Raw)
				}
			}
			for _, restart := range []bool{false, true} {
				if restart {
					w.start()
				}
				w.intents(target, creating(apply(repeated))) // the cache is behind
				w.seen(pod, "web")
				w.wire.take()
				w.intents(target, creating(apply(repeated)))
				w.expectSent()
				w.store.drop(pod.Kind, w.key(pod, "web"))
			}
		})
	}
}

// A field that the schema does not have is refused, as an apply refuses it.
func TestCreateRefusesUnknownFields(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(pod, widget), nil)
	for kind, text := range map[object.Resource]string{
		pod:    strings.Replace(fmt.Sprintf(podObject, "web:1"), `"spec":{`, `"spec":{"unknown":1,`, 1),
		widget: `{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"web"},"spec":{"unknown":1}}`,
	} {
		for _, in := range []*abi.Result{apply("%s", text), creating(apply("%s", text))} {
			_, failure := w.PerformIntents(t.Context(), target, in)
			if failure == nil || failure.Outage || failure.Class != abi.ClassRetry || !strings.Contains(failure.Message, "unknown") || w.live(kind, "web") != nil {
				t.Errorf("%s: %+v", text, failure)
			}
		}
	}
}

func TestCreateKeepsFinalizersButThoseOfTheHost(t *testing.T) {
	const text = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","generateName":"c-","finalizers":%s}}`
	const given = `["a.example.com/x","demo.thole.dev/main","other.thole.dev/y","demo.thole.dev\/m\u0061in","b.example.com/x"]`
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	in := creating(apply(text, given))
	w.intents(target, in)
	made := w.live(configMap, "c")
	if got := fmt.Sprintf("%s %s", made.Finalizers, made.GenerateName); got != "[a.example.com/x b.example.com/x] c-" {
		t.Errorf("made with %s", got)
	}
	w.edit(configMap, "c", "", `{"metadata":{"finalizers":["b.example.com/x"]}}`) // it has done what it was for
	w.intents(target, in)
	w.seen(configMap, "c")
	w.intents(target, apply(text, given)) // which has none
	if got := fmt.Sprint(w.live(configMap, "c").Finalizers); got != "[b.example.com/x]" {
		t.Errorf("an apply leads to %s", got)
	}
	w.edit(configMap, "c", "", `{"metadata":{"finalizers":null}}`)
	w.remove(configMap, "c")

	for _, none := range []string{"null", "[]", `["demo.thole.dev/main"]`} {
		w.start()
		w.intents(target, creating(apply(text, none)))
		if made := w.seen(configMap, "c"); len(made.Finalizers) != 0 {
			t.Errorf("%s: made with %q", none, made.Finalizers)
		}
		w.remove(configMap, "c")
		w.seen(configMap, "c")
	}
	for wrong, class := range map[string]abi.Class{`"a.example.com/x"`: abi.ClassABI, `{}`: abi.ClassABI, `[1]`: abi.ClassRetry, `["no name"]`: abi.ClassRetry} {
		_, failure := w.PerformIntents(t.Context(), target, creating(apply(text, wrong)))
		if failure == nil || failure.Class != class || failure.Outage || w.live(configMap, "c") != nil {
			t.Errorf("%s: failed with %+v", wrong, failure)
		}
	}
}

// The names of what was created are those of the intent and of what the server has added; it
// stores some values in another form, and leaves out what is empty.
func TestCreatedNamesAreRecognized(t *testing.T) {
	const tail = `"spec":{"nodeSelector":{},"hostNetwork":false,"securityContext":{"runAsUser":null},"containers":[{"name":"main","image":"web:1","args":["a"],"env":[{"name":"A","value":"1"}],` +
		`"resources":{"requests":{"cpu":"1000m"}},"ports":[{"containerPort":80}],"securityContext":{"privileged":false}}]}}`
	const text = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c","labels":{"a":"1","b":"2"},"annotations":{}},` + tail
	const hidden = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c"},"stringData":{"k":"v"},"data":{"x":"eQ=="}}`
	w := newCluster(t)
	target := remembering(w.owner(list(pod, secret), nil))
	made := func(r object.Resource, text string) bool {
		t.Helper()
		w.start()
		w.seen(r, "c")
		_, failure := w.PerformIntents(t.Context(), target, creating(apply("%s", text)))
		if failure != nil && failure.Reason != "AlreadyExists" {
			t.Fatalf("failed with %+v", failure)
		}
		return failure == nil
	}
	w.intents(target, creating(apply("%s", text)))
	w.intents(target, creating(apply(hidden)))
	if !made(pod, text) || !made(secret, hidden) {
		t.Error("it is not recognized")
	}
	if _, err := w.admin.patch(t.Context(), pod, w.key(pod, "c"), patch{
		patchType: types.StrategicMergePatchType, manager: "another",
		body: []byte(`{"metadata":{"labels":{"a":"theirs","b":null,"more":"1"}},"spec":{"containers":[{"name":"main","image":"web:2"}]}}`),
	}); err != nil {
		t.Fatal(err)
	}
	if !made(pod, text) {
		t.Error("it is not recognized when others have changed values, and removed one")
	}
	w.edit(secret, "c", "", `{"data":{"k":null}}`)
	if !made(secret, hidden) {
		t.Error("it is not recognized when others have removed a key")
	}
	for _, other := range []struct {
		kind             object.Resource
		text, old, added string
	}{
		{pod, text, `"annotations":{}`, `"annotations":{"a":"1"}`},
		{secret, hidden, `"data":`, `"immutable":true,"data":`},
	} {
		if changed := strings.Replace(other.text, other.old, other.added, 1); changed == other.text || made(other.kind, changed) {
			t.Errorf("an intent with %s counts as the one that has made it", other.added)
		}
	}
}

// An object of the same fields that the controller has only adopted is not one that it has created, also
// if it has created another one of the name before.
func TestWhatWasAdoptedWasNotCreated(t *testing.T) {
	for _, before := range []bool{false, true} {
		w := newCluster(t)
		target := remembering(w.owner(list(configMap), nil))
		in := creating(apply(configObject, "v"))
		taken := func() {
			t.Helper()
			w.seen(configMap, "c")
			if _, failure := w.PerformIntents(t.Context(), target, in); failure == nil || failure.Reason != "AlreadyExists" {
				t.Errorf("before %t: failed with %+v", before, failure)
			}
		}
		if before {
			w.intents(target, in)
			w.remove(configMap, "c")
		}
		w.create(configMap, `{"metadata":{"name":"c"},"data":{"k":"theirs"}}`)
		taken()
		w.intents(target, adopt(apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`)))
		taken()
	}
}

// A webhook may refuse every creation so, of objects that do not exist.
func TestANameThatIsTakenByNothingIsAConflictOnce(t *testing.T) {
	w, target := newFake(t, func(rw http.ResponseWriter, r *http.Request) {
		code, reason := http.StatusNotFound, "NotFound"
		if r.Method == http.MethodPost {
			code, reason = http.StatusConflict, "AlreadyExists"
		}
		respondStatus(code, reason, "refused", "")(rw, r)
	})
	for _, conflict := range []bool{true, false} {
		_, failure := w.PerformIntents(t.Context(), target, creating(apply(configObject, "v")))
		if failure == nil || failure.Class != abi.ClassRetry || failure.Conflict != conflict {
			t.Errorf("failed with %+v, want a conflict: %t", failure, conflict)
		}
	}
}

// What was created keeps its fields, and what the server has set by default: the image decides
// about imagePullPolicy, which must not change. An apply adds and changes those that it names.
func TestAnApplyAddsToWhatCreateHasMade(t *testing.T) {
	const other = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{%s}},"spec":{"containers":[{"name":"main","image":"web","resources":{"requests":{"cpu":"1"}},"ports":[{"containerPort":80}],"args":["a","b"]}]}}`
	for _, restart := range []bool{false, true} {
		w := newCluster(t)
		target := w.owner(list(pod), nil)
		w.intents(target, creating(apply(podObject, "web:1")))
		w.seen(pod, "web")
		sent := ""
		if restart {
			w.start()
			sent = "PATCH" // nothing shows that nobody has changed it
		}
		w.wire.take()
		w.intents(target, apply(podObject, "web:1"))
		if got := w.wire.methods(); got != sent {
			t.Errorf("restart %t: sent %q", restart, got)
		}
		for _, labels := range []string{`"more":"1"`, ``} {
			w.seen(pod, "web")
			w.intents(target, apply(other, labels))
			got, want := w.live(pod, "web"), "map[app:web]"
			if labels != "" {
				want = "map[app:web more:1]"
			}
			if fmt.Sprint(got.Labels) != want || !strings.Contains(string(got.Raw), `"image":"web"`) || !strings.Contains(string(got.Raw), `"imagePullPolicy":"IfNotPresent"`) {
				t.Errorf("restart %t: got %s", restart, got.Raw)
			}
		}
	}
}

// The creation and a patch of the same controller are of one field manager: that it has a field does
// not show that the field has the value of the intent.
func TestACreationDoesNotHideAPatchOfTheController(t *testing.T) {
	for _, memory := range []bool{false, true} {
		w := newCluster(t)
		target := w.owner(list(widget), nil)
		if memory {
			target = remembering(target)
		}
		const text = `{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"part"},"spec":{"size":3}}`
		w.intents(target, creating(apply(text)))
		part := Target{Controller: target.Controller, Object: w.live(widget, "part")}
		w.intents(part, &abi.Result{Patch: []byte(`{"spec":{"size":4}}`)})
		w.seen(widget, "part")
		w.start()
		w.intents(target, apply(text))
		if got := field(w.live(widget, "part"), "spec", "size"); got != "3" {
			t.Errorf("memory %t: the size is %s", memory, got)
		}
	}
}

// The fields of the creation are of the same primary, with which it is not in conflict.
func TestAPrimaryAppliesWhatItHasCreatedAndDoesNotOwn(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := newCluster(t)
		p := w.sharers("one", "two")
		w.succeed(p[0], creating(data("one=1", "kept=1")))
		if restart {
			w.start()
			w.FindShared(p[0].Controller)
		}
		w.succeed(p[0], data("one=2", "more=1"))
		w.expectData("kept=1", "more=1", "one=2")
		w.succeed(p[0], data("one=3"))
		w.expectData("kept=1", "one=3")
		w.wire.take()
		w.succeed(p[0], data("one=3"))
		w.expectSent()
		w.succeed(p[1], data("kept=2")) // which nobody has any more
		w.succeed(p[0], &abi.Result{})
		w.expectData("kept=2")
	}
}

func TestWhatWasCreatedStaysWhenItIsReleased(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one", "two")
	w.succeed(p[0], creating(data("one=1")))
	w.succeed(p[1], data("two=2"))
	w.succeed(p[0], &abi.Result{})
	w.expectData("one=1", "two=2")
	if n := sharers(w.live(configMap, "c").Annotations); n != 1 {
		t.Errorf("%d primaries share it", n)
	}
	w.succeed(p[1], data("one=2"))
	w.expectData("one=2")
}

// The kind moves between owns and writes.
func TestWhatWasCreatedIsHandedOver(t *testing.T) {
	for _, memory := range []bool{false, true} {
		w := newCluster(t)
		target := w.owner(list(configMap), nil)
		if memory {
			target = remembering(target)
		}
		w.intents(target, creating(data("a=1")))
		w.seen(configMap, "c")
		target.Controller = controller(nil, list(configMap))
		w.start()
		w.succeed(target, data("a=2"))
		w.expectData("a=2")
		if managers := w.managers(); len(managers) != 1 || managers[0] != w.sharedManager(target.Controller, target.Object.Key()) {
			t.Errorf("memory %t: managers %q", memory, managers)
		}
	}
}

func TestWhatWasCreatedIsPruned(t *testing.T) {
	w := newCluster(t)
	target := pruning(w.owner(list(configMap), nil))
	create := func() {
		w.intents(target, creating(&abi.Result{Apply: naming("a", "b").Apply}))
		w.seen(configMap, "a")
		w.seen(configMap, "b")
	}
	create()
	w.start()
	w.intents(target, naming("a")) // an apply keeps the label
	w.seen(configMap, "a")
	w.seen(configMap, "b")
	if w.live(configMap, "a") == nil || w.live(configMap, "b") != nil {
		t.Error("b is pruned, and a is not")
	}
	w.intents(target, naming())
	if w.live(configMap, "a") != nil {
		t.Error("a is not pruned")
	}
}

// Its size is that of an apply with the same fields, also where only metadata is kept.
func TestWhatWasCreatedIsCounted(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	text := fmt.Sprintf(configObject, strings.Repeat("x", 100_000))
	size := func(in *abi.Result) (whole, metadata int) {
		w.intents(target, in)
		defer w.remove(configMap, "c")
		raw, err := send(t.Context(), w.admin.read(configMap, w.key(configMap, "c")))
		if err != nil {
			t.Fatal(err)
		}
		o, err := object.ParseMetadata(raw, configMap.Kind)
		if err != nil {
			t.Fatal(err)
		}
		return w.live(configMap, "c").BytesBy(w.managerPrefix()), o.BytesBy(w.managerPrefix())
	}
	whole, metadata := size(apply("%s", text))
	createdWhole, createdMetadata := size(creating(apply("%s", text)))
	for created, applied := range map[int]int{createdWhole: whole, createdMetadata: metadata} {
		if applied < 90_000 || created < applied*15/16 || created > applied*9/8 {
			t.Errorf("%d bytes are counted, and %d of an apply", created, applied)
		}
	}
}

// An object that a former version of the host has created by an apply is recognized.
func TestCreateRecognizesWhatAnApplyHasCreated(t *testing.T) {
	for _, memory := range []bool{false, true} {
		w := newCluster(t)
		target := w.owner(list(pod), nil)
		if memory {
			target = remembering(target)
		}
		s := newSession(w.Performer, target)
		a, _, err := s.planApply(t.Context(), abi.Apply{Object: fmt.Appendf(nil, podObject, "web:1"), Create: true})
		if err != nil {
			t.Fatal(err)
		}
		body, err := s.request(a, nil, noVersion)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.admin.patch(t.Context(), pod, a.key, patch{patchType: types.ApplyPatchType, manager: w.manager(target.Controller), body: body}); err != nil {
			t.Fatal(err)
		}
		w.seen(pod, "web")
		w.intents(target, creating(apply(podObject, "web:1")))
	}
}
