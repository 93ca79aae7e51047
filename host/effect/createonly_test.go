package effect

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// creating makes the applies of a result only create.
func creating(in *abi.Result) *abi.Result {
	for i := range in.Apply {
		in.Apply[i].Create = true
	}
	return in
}

const creationPath = "/configmaps?fieldManager=thole%2Fdemo%2Fmain&fieldValidation=Strict"

// After the restart, nothing but the object shows who has made it.
func TestCreateSucceedsForWhatItHasMade(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	path := "/api/v1/namespaces/" + w.ns
	in := creating(apply(configObject, "v"))

	report := w.intents(target, in)
	w.expectSent("POST " + path + creationPath)
	made := w.live(configMap, "c")
	if owner := made.Controller(); owner == nil || owner.UID != target.Object.UID || made.Annotations[AppliedAnnotation] == "" {
		t.Errorf("made %s", made.Raw)
	}
	if len(report.Writes) != 1 || report.Writes[0].Object.ResourceVersion != made.ResourceVersion {
		t.Errorf("reported %+v", report.Writes)
	}
	for _, restart := range []bool{false, true} {
		if restart {
			w.start()
		}
		w.store.drop(configMap.Kind, w.key(configMap, "c")) // the reply was lost, and the cache is behind
		report := w.intents(target, in)
		w.expectSent("POST "+path+creationPath, "GET "+path+"/configmaps/c")
		if len(report.Writes) != 0 {
			t.Errorf("reported %+v", report.Writes)
		}
		w.seen(configMap, "c") // the result is performed again
		w.intents(target, in)
		w.expectSent()
	}
	w.store.put(w.edit(configMap, "c", "", `{"data":{"k":"theirs"}}`)) // create does not change it back
	w.intents(target, in)
	w.expectSent()
	if got := w.live(configMap, "c"); field(got, "data") != `{"k":"theirs"}` {
		t.Errorf("changed %s", got.Raw)
	}
}

// takers are objects that have the name of one that is to be created.
var takers = map[string]struct {
	make  func(*world, Target)
	names string // who the failure says has the name
}{
	"nobody's": {
		func(w *world, _ Target) { w.create(configMap, `{"metadata":{"name":"c"},"data":{"k":"v"}}`) },
		"an object that nobody controls",
	},
	"another controller's": {
		func(w *world, _ Target) {
			w.create(configMap, controlled(w.create(widget, `{"metadata":{"name":"other"}}`)))
		},
		"an object that is controlled by test.thole.dev/v1 Widget other",
	},
	"the primary's, made by something else": {
		func(w *world, t Target) { w.create(configMap, controlled(t.Object)) },
		"an object of the primary that something else has made",
	},
	"of another intent": {
		func(w *world, t Target) { w.intents(t, apply(configObject, "other")) },
		"what another intent of the primary has made",
	},
	"made by the intent, and being deleted": {
		func(w *world, t Target) {
			w.intents(t, creating(apply(configObject, "v")))
			w.edit(configMap, "c", "", `{"metadata":{"finalizers":["other.dev/x"]}}`)
			w.remove(configMap, "c")
		},
		"an object that is being deleted",
	},
	"another controller's, applied as the intent would": {
		func(w *world, t Target) {
			text := strings.Replace(controlled(w.create(widget, `{"metadata":{"name":"other"}}`)), `"name":"c",`, `"name":"c",`+w.noted(t), 1)
			if _, err := w.admin.patch(w.Context(), configMap, w.key(configMap, "c"), patch{
				patchType: types.ApplyPatchType, manager: w.manager(t.Controller), body: withKind(w.T, configMap, text),
			}); err != nil {
				w.Fatal(err)
			}
		},
		"an object that is controlled by test.thole.dev/v1 Widget other",
	},
	"created by something else, with the annotation": {
		func(w *world, t Target) {
			w.create(configMap, strings.Replace(controlled(t.Object), `"name":"c",`, `"name":"c",`+w.noted(t), 1))
		},
		"what another intent of the primary has made",
	},
}

// noted returns the annotation, as a member of metadata, that the intent makes.
func (w *world) noted(t Target) string {
	w.Helper()
	w.intents(t, creating(apply(configObject, "v")))
	value := w.live(configMap, "c").Annotations[AppliedAnnotation]
	w.remove(configMap, "c")
	return fmt.Sprintf(`"annotations":{%q:%q},`, AppliedAnnotation, value)
}

// controlled returns the ConfigMap c as one that owner controls.
func controlled(owner *object.Object) string {
	return fmt.Sprintf(`{"metadata":{"name":"c","ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true}]},"data":{"k":"v"}}`,
		owner.Kind.APIVersion, owner.Kind.Kind, owner.Name, owner.UID)
}

// The first time it is a race, since the cache may be behind what has the name. A run that
// names it again is told as a failure.
func TestCreateOfATakenNameChangesNothing(t *testing.T) {
	for name, c := range takers {
		for _, seen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, seen %t", name, seen), func(t *testing.T) {
				w := newCluster(t)
				target := w.owner(list(configMap), nil)
				c.make(w, target)
				w.start()
				if w.store.drop(configMap.Kind, w.key(configMap, "c")); seen {
					w.seen(configMap, "c")
				}
				before := w.live(configMap, "c")
				for _, conflict := range []bool{true, false, false} {
					_, failure := w.PerformIntents(t.Context(), target, creating(apply(configObject, "v")))
					if failure == nil || failure.Class != abi.ClassRetry || failure.Reason != "AlreadyExists" || failure.Conflict != conflict ||
						!strings.HasPrefix(failure.Message, "the name is taken by "+c.names) {
						t.Errorf("failed with %+v, want a conflict %t", failure, conflict)
					}
				}
				if after := w.live(configMap, "c"); after.ResourceVersion != before.ResourceVersion {
					t.Errorf("changed %s", after.Raw)
				}
				w.edit(configMap, "c", "", `{"metadata":{"finalizers":null}}`)
				if w.live(configMap, "c") != nil {
					w.remove(configMap, "c")
				}
				w.intents(target, creating(apply(configObject, "v"))) // although the cache still shows it
				if w.live(configMap, "c") == nil {
					t.Error("it is not created when the name is free")
				}
			})
		}
	}
}

// A name that is new in each run is taken by accident each time.
func TestAnotherTakenNameIsAConflictAgain(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	for _, name := range []string{"a", "b", "a"} {
		if w.live(configMap, name) == nil {
			w.create(configMap, fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
		}
		_, failure := w.PerformIntents(t.Context(), target, creating(apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name)))
		if failure == nil || !failure.Conflict {
			t.Errorf("%s: failed with %+v, want a conflict", name, failure)
		}
	}
	w.remove(configMap, "a")
	created := creating(apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`))
	w.intents(target, created)
	w.remove(configMap, "a")
	w.create(configMap, `{"metadata":{"name":"a"}}`)
	if _, failure := w.PerformIntents(t.Context(), target, created); failure == nil || !failure.Conflict {
		t.Errorf("after it was created: failed with %+v, want a conflict", failure)
	}
	w.intents(target, &abi.Result{})
	if r := w.memory.of(target, false); r.extra != nil {
		t.Errorf("it is recorded still: %+v", r.extra)
	}
}

// Whether a primary has made what it does not own, its annotation tells.
func TestCreateOfWhatIsNotOwned(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one", "two")
	in := creating(data("one=1"))
	w.succeed(p[0], in)
	w.seen(configMap, "c")
	w.wire.take()
	w.intents(p[0], in)
	w.expectSent()
	if _, failure := w.PerformIntents(t.Context(), p[1], in); failure == nil || failure.Reason != "AlreadyExists" {
		t.Errorf("another primary: %+v", failure)
	}
	w.intents(p[1], data("two=2"))
	w.seen(configMap, "c")
	if _, failure := w.PerformIntents(t.Context(), p[1], creating(data("two=2"))); failure == nil || failure.Reason != "AlreadyExists" {
		t.Errorf("a primary that has only applied fields: %+v", failure)
	}
	w.intents(p[0], in)
	w.expectData("one=1", "two=2")
}

func TestCreateNeedsTheRightToCreateAlone(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), list(secret))
	in := creating(apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`))
	w.allow(entry(secret, "get patch delete"))
	_, failure := w.PerformIntents(t.Context(), target, in)
	w.expectNotAllowed("without create", failure, "{groups: [''], kinds: [Secret], verbs: [create]}")
	w.expectSent()
	w.allow(entry(secret, "create"))
	w.intents(target, in)
	if w.live(secret, "x") == nil {
		t.Error("it is not created")
	}
	w.intents(target, in) // the cache is behind
}

func TestADryRunOfCreate(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.DryRun = true })
	target := w.owner(list(configMap), nil)
	w.intents(target, creating(apply(configObject, "v")))
	if w.live(configMap, "c") != nil {
		t.Error("created")
	}
	if line := w.logs.Next(t); line.Message != "dry run: would create" {
		t.Errorf("logged %v", line)
	}
	w.create(configMap, `{"metadata":{"name":"c"}}`)
	if _, failure := w.PerformIntents(t.Context(), target, creating(apply(configObject, "v"))); failure == nil || failure.Reason != "AlreadyExists" {
		t.Errorf("failed with %+v", failure)
	}
}

// The object that has the name goes before it is read.
func TestANameThatWasTakenForAMomentIsAConflict(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.wire.before = func(request) {
		w.create(configMap, `{"metadata":{"name":"c"}}`)
		w.wire.before = func(request) { w.remove(configMap, "c") }
	}
	_, failure := w.PerformIntents(t.Context(), target, creating(apply(configObject, "v")))
	if failure == nil || !failure.Conflict {
		t.Errorf("failed with %+v, want a conflict", failure)
	}
	w.intents(target, creating(apply(configObject, "v")))
}

// Some aggregated API servers create nothing with a resourceVersion.
func TestCreateOnAServerThatTakesNoResourceVersion(t *testing.T) {
	w, target := newFake(t, func(out http.ResponseWriter, in *http.Request) {
		body, _ := io.ReadAll(in.Body)
		if strings.Contains(string(body), `"resourceVersion"`) {
			respondStatus(http.StatusBadRequest, "BadRequest", "resourceVersion should not be set on objects to be created", "")(out, in)
			return
		}
		respond(201, "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default","uid":"u2","resourceVersion":"7"}}`)(out, in)
	})
	if report := w.intents(target, creating(apply(configObject, "v"))); len(report.Writes) != 1 {
		t.Errorf("reported %+v", report.Writes)
	}
	if got := w.wire.methods(); got != "POST" {
		t.Errorf("sent %s", got)
	}
}

// Errors that say nothing about an object of the name cost one request.
func TestAFailedCreationIsNotReadFor(t *testing.T) {
	for _, code := range []int{403, 404, 409, 422, 429, 500, 503} {
		w, target := newFake(t, respondStatus(code, "", "no", ""))
		_, failure := w.PerformIntents(t.Context(), target, creating(apply(configObject, "v")))
		if failure == nil || failure.Uncertain != (code >= 500) {
			t.Errorf("%d: failed with %+v", code, failure)
		}
		if got := w.wire.methods(); got != "POST" {
			t.Errorf("%d: sent %s", code, got)
		}
	}
}

// Quotas and webhooks refuse with the code of a conflict, too. No object has changed, so that the
// run counts and the refusal is told.
func TestAConflictOfACreationIsTold(t *testing.T) {
	const quota = `Operation cannot be fulfilled on resourcequotas "q": the object has been modified; please apply your changes to the latest version and try again`
	for message, reason := range map[string]string{
		quota: "Conflict",
		`admission webhook "x.example.com" denied the request: come back later`: "Conflict",
		"no reason": "",
	} {
		w, target := newFake(t, respondStatus(409, reason, message, ""))
		_, failure := w.PerformIntents(t.Context(), target, creating(apply(configObject, "v")))
		if failure == nil || failure.Class != abi.ClassRetry || failure.Message != message || failure.Conflict || failure.Reason == "AlreadyExists" {
			t.Errorf("%s: failed with %+v", message, failure)
		}
	}
}

// The entry of managedFields that shows who has created the object is given to another one.
func TestAnObjectWithoutTheFieldManagerIsTaken(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, creating(apply(configObject, "v")))
	if _, err := w.admin.patch(t.Context(), configMap, w.key(configMap, "c"), patch{
		patchType: types.JSONPatchType, manager: "another", body: []byte(`[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`),
	}); err != nil {
		t.Fatal(err)
	}
	w.seen(configMap, "c")
	_, failure := w.PerformIntents(t.Context(), target, creating(apply(configObject, "v")))
	if failure == nil || failure.Reason != "AlreadyExists" {
		t.Errorf("failed with %+v", failure)
	}
}

// Of a kind in owns that is followed by its metadata, by the label of the plugin, the cache has
// less.
func TestCreateOfWhatIsFollowedInPart(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.Managed = true })
	target := w.owner(list(configMap), nil)
	w.store.selects = func(o *object.Object) bool { return o.Labels[abi.LabelManagedBy] == w.Plugin }
	w.store.selected, w.store.metadata = map[abi.Kind]bool{configMap.Kind: true}, map[abi.Kind]bool{configMap.Kind: true}
	in := creating(apply(configObject, "v"))
	w.intents(target, in)
	if made := w.seen(configMap, "c"); made.Labels[abi.LabelManagedBy] != w.Plugin {
		t.Errorf("made %s", made.Raw)
	}
	w.wire.take()
	w.intents(target, in)
	w.expectSent()

	w.edit(configMap, "c", "", `{"metadata":{"labels":null}}`) // it is followed no more
	w.seen(configMap, "c")
	w.intents(target, in)
	if got := w.wire.methods(); got != "POST GET" {
		t.Errorf("sent %s", got)
	}
	w.create(configMap, `{"metadata":{"name":"theirs"}}`)
	w.seen(configMap, "theirs")
	_, failure := w.PerformIntents(t.Context(), target, creating(apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"theirs"}}`)))
	if failure == nil || failure.Reason != "AlreadyExists" || !failure.Conflict {
		t.Errorf("failed with %+v", failure)
	}
}

// The garbage collector has not come to what the primary of the name before has left.
func TestCreateOfWhatAnEarlierPrimaryHasLeft(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, creating(apply(configObject, "v")))
	later := *target.Object
	later.UID = "later"
	_, failure := w.PerformIntents(t.Context(), Target{Controller: target.Controller, Object: &later}, creating(apply(configObject, "v")))
	if failure == nil || !strings.HasPrefix(failure.Message, "the name is taken by an object that an earlier object of the primary's name controls") {
		t.Errorf("failed with %+v", failure)
	}
}
