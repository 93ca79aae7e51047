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

// methods returns the methods of the requests since the last call.
func (w *wire) methods() string {
	var all []string
	for _, r := range w.take() {
		all = append(all, r.method)
	}
	return strings.Join(all, " ")
}

func TestANewChildAndItsStatusCostTwoRequests(t *testing.T) {
	for name, c := range map[string]struct {
		resource       object.Resource
		child, changed string
	}{
		"config map":      {configMap, fmt.Sprintf(configObject, "1"), fmt.Sprintf(configObject, "2")},
		"pod":             {pod, fmt.Sprintf(podObject, "web:1"), fmt.Sprintf(podObject, "web")},
		"custom resource": {widget, `{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"part"},"spec":{"size":3}}`, `{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"part"},"spec":{"size":4}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			target := w.owner(list(c.resource), nil)
			for i, child := range []string{c.child, c.changed} {
				report := w.intents(target, apply("%s", child))
				w.store.put(report.Writes[0].Object) // the store includes own writes
				w.status(&target, Status{Patch: fmt.Appendf(nil, `{"count":%d}`, i+1)})
				if got := w.wire.methods(); got != "PATCH PATCH" {
					t.Errorf("run %d sent %s", i, got)
				}
			}
		})
	}
}

// The cache does not have an object that another client creates just before the
// request.
func TestAnObjectThatHasAppearedIsJudged(t *testing.T) {
	const meta = `"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"`
	owner := `,"ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":%q,"uid":%q,"controller":true}]`
	for name, c := range map[string]struct {
		appears  func(primary, other *object.Object) string
		adopt    bool
		reason   string // of the failure, "" for none
		requests string
		data     string
	}{
		"nobody's": {
			func(_, _ *object.Object) string { return `{` + meta + `},"data":{"k":"theirs"}}` },
			false, reasonNotAdopted, "PATCH GET", `{"k":"theirs"}`,
		},
		"nobody's, to adopt": {
			func(_, _ *object.Object) string { return `{` + meta + `},"data":{"more":"theirs"}}` },
			true, "", "PATCH GET GET PATCH", `{"k":"v","more":"theirs"}`,
		},
		"nobody's, to adopt, in conflict": {
			func(_, _ *object.Object) string { return `{` + meta + `},"data":{"k":"theirs"}}` },
			true, reasonFieldConflict, "PATCH GET GET PATCH GET", `{"k":"theirs"}`,
		},
		"another controller's": {
			func(_, other *object.Object) string {
				return fmt.Sprintf(`{`+meta+owner+`},"data":{"k":"v"}}`, other.Name, other.UID)
			},
			true, reasonControlled, "PATCH GET", `{"k":"v"}`,
		},
		"the primary's, with another value": {
			func(primary, _ *object.Object) string {
				return fmt.Sprintf(`{`+meta+owner+`},"data":{"k":"old"}}`, primary.Name, primary.UID)
			},
			false, "", "PATCH GET PATCH", `{"k":"v"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			target, other := w.owner(list(configMap), nil), w.create(widget, `{"metadata":{"name":"other"}}`)
			var before *object.Object
			w.wire.before = func(request) { before = w.create(configMap, c.appears(target.Object, other)) }
			in := apply(configObject, "v")
			in.Apply[0].Adopt = c.adopt
			_, failure := w.PerformIntents(t.Context(), target, in)
			if failure == nil && c.reason != "" || failure != nil && failure.Reason != c.reason {
				t.Errorf("got %+v, want %q", failure, c.reason)
			}
			got := w.live(configMap, "c")
			if field(got, "data") != c.data || c.reason != "" && got.ResourceVersion != before.ResourceVersion {
				t.Errorf("got %s", got.Raw)
			}
			if got := w.wire.methods(); got != c.requests {
				t.Errorf("sent %s", got)
			}
		})
	}
}

// The reply to the creation was lost. The cache is still behind in the next run.
func TestAChildWhoseCreationHadNoReplyIsNotWrittenAgain(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(configObject, "v"))
	before := w.live(configMap, "c")
	w.start()
	w.wire.take()
	if report := w.intents(target, apply(configObject, "v")); len(report.Writes) != 0 {
		t.Errorf("reported %+v", report.Writes)
	}
	if got := w.live(configMap, "c"); got.ResourceVersion != before.ResourceVersion {
		t.Errorf("changed %s", got.Raw)
	}
	if got := w.wire.methods(); got != "PATCH GET" {
		t.Errorf("sent %s", got)
	}
}

// An object that goes again before it is read is created.
func TestAChildIsCreatedAlthoughAnotherCameAndWent(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.wire.before = func(request) {
		w.create(configMap, `{"metadata":{"name":"c"}}`)
		w.wire.before = func(request) { w.remove(configMap, "c") }
	}
	w.intents(target, apply(configObject, "v"))
	if got := w.live(configMap, "c"); got == nil || got.Controller() == nil {
		t.Errorf("got %v", got)
	}
}

// The second attempt, too, creates an object and never changes one.
func TestAnObjectThatComesBackIsJudged(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	var theirs *object.Object
	come := func(request) { theirs = w.create(configMap, `{"metadata":{"name":"c"}}`) }
	w.wire.before = func(r request) {
		come(r)
		w.wire.before = func(request) {
			w.remove(configMap, "c")
			w.wire.before = come
		}
	}
	if _, failure := w.PerformIntents(t.Context(), target, apply(configObject, "v")); failure == nil || !failure.Conflict {
		t.Errorf("failed with %+v, want a conflict", failure)
	}
	if got := w.live(configMap, "c"); got == nil || got.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("got %v", got)
	}
}

// Some aggregated API servers do not create an object with a resourceVersion.
func TestAServerThatCreatesNothingWithAResourceVersion(t *testing.T) {
	for _, code := range []int{http.StatusBadRequest, http.StatusConflict, http.StatusInternalServerError} {
		created := ""
		w, target := newFake(t, func(out http.ResponseWriter, in *http.Request) {
			body := make([]byte, max(in.ContentLength, 0))
			_, _ = in.Body.Read(body)
			switch {
			case in.Method == http.MethodGet:
				respondStatus(404, "NotFound", "not found", "")(out, in)
			case strings.Contains(string(body), `"resourceVersion"`):
				respondStatus(code, "", "resourceVersion should not be set on objects to be created", "")(out, in)
			default:
				created = string(body)
				respond(201, "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default","uid":"u2","resourceVersion":"7"}}`)(out, in)
			}
		})
		w.intents(target, apply(configObject, "v"))
		if got := w.wire.methods(); got != "PATCH GET PATCH" || created == "" {
			t.Errorf("%d: sent %s, created %q", code, got, created)
		}
	}
}

// Errors that say nothing about an object of the name cost one request.
func TestARefusedCreationIsNotReadFor(t *testing.T) {
	for _, code := range []int{400, 403, 404, 422, 429, 500, 503} {
		w, target := newFake(t, respondStatus(code, "", "no", ""))
		if _, failure := w.PerformIntents(t.Context(), target, apply(configObject, "v")); failure == nil {
			t.Errorf("%d: no failure", code)
		}
		if got := w.wire.methods(); got != "PATCH" {
			t.Errorf("%d: sent %s", code, got)
		}
	}
}

// What the server has set by default when the child was created belongs to nobody:
// imagePullPolicy of a Pod must not change, and the default for web is another one
// than that for web:1.
func TestTheFirstChangeOfAChildRemovesWhatLeftTheIntentAndNothingElse(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			w := newCluster(t)
			target := w.owner(list(pod, widget), nil)
			w.intents(target, &abi.Result{Apply: []abi.Apply{
				{Object: fmt.Appendf(nil, podObject, "web:1")},
				{Object: []byte(`{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"part","labels":{"ours":"1"}},"spec":{"size":3,"tags":["x"]}}`)},
			}})
			w.edit(pod, "web", "", `{"metadata":{"labels":{"theirs":"1"}}}`)
			w.edit(widget, "part", "", `{"metadata":{"annotations":{"theirs":"1"}}}`)
			// The child is a primary of the controller itself.
			part := Target{Controller: target.Controller, Object: w.live(widget, "part")}
			report, failure := w.EnsureFinalizer(t.Context(), part)
			if failure != nil {
				t.Fatalf("%+v", failure)
			}
			part.Object = report.Primary
			part.Object = w.intents(part, &abi.Result{Patch: []byte(`{"spec":{"parts":[{"a":"own"}]}}`)}).Primary
			w.status(&part, Status{Patch: []byte(`{"note":"own"}`)})
			w.seen(pod, "web")
			w.seen(widget, "part")
			if restart {
				w.start()
			}
			w.wire.take()

			w.intents(target, &abi.Result{Apply: []abi.Apply{
				{Object: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"main","image":"web","resources":{"requests":{"cpu":"1000m"}},"ports":[{"containerPort":80}],"args":["a","b"]}]}}`)},
				{Object: []byte(`{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"part"},"spec":{"size":3}}`)},
			}})

			if got := w.wire.methods(); got != "PATCH PATCH" {
				t.Errorf("sent %s", got)
			}
			if web := w.live(pod, "web"); fmt.Sprint(web.Labels) != "map[theirs:1]" ||
				!strings.Contains(string(web.Raw), `"image":"web"`) || !strings.Contains(string(web.Raw), `"imagePullPolicy":"IfNotPresent"`) {
				t.Errorf("got %s", web.Raw)
			}
			got := w.live(widget, "part")
			if field(got, "spec") != `{"parts":[{"a":"own"}],"size":3}` || len(got.Labels) != 0 || got.Annotations["theirs"] != "1" ||
				fmt.Sprint(got.Finalizers) != "[demo.thole.dev/main]" || field(got, "status", "note") != `"own"` {
				t.Errorf("got %s", got.Raw)
			}
		})
	}
}

// The second primary was told that there is no such object.
func TestPrimariesThatCreateAnObjectAtOnceAreCounted(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one", "two", "late")
	w.wire.before = func(request) { w.intents(p[1], data("two=2")) }
	w.succeed(p[0], data("one=1"))
	w.expectData("one=1", "two=2")
	w.succeed(p[1], &abi.Result{}) // has created the object, which both share
	w.expectData("one=1")

	w.remove(configMap, "c")
	w.seen(configMap, "c")
	var annotations []string
	for i := range maxSharers {
		annotations = append(annotations, fmt.Sprintf(`"c%d.%s-%032d":"d x/y"`, i, "p."+AppliedAnnotation, i))
	}
	w.wire.before = func(request) {
		w.create(configMap, `{"metadata":{"name":"c","annotations":{`+strings.Join(annotations, ",")+`}}}`)
	}
	_, failure := w.PerformIntents(t.Context(), p[2], data("late=1"))
	if failure == nil || failure.Reason != reasonTooManySharers {
		t.Errorf("got %+v", failure)
	}
}

func TestADryRunOfACreationStoresNothing(t *testing.T) {
	w := newCluster(t, func(c *Config) { c.DryRun = true })
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(configObject, "v"))
	if got := w.wire.methods(); got != "PATCH" || w.live(configMap, "c") != nil {
		t.Errorf("sent %s", got)
	}
	if line := w.logs.Next(t); line.Message != "dry run: would create" {
		t.Errorf("logged %v", line)
	}
	w.create(configMap, fmt.Sprintf(`{"metadata":{"name":"c","ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"w","uid":%q,"controller":true}]}}`, target.Object.UID))
	w.wire.take()
	w.intents(target, apply(configObject, "v"))
	if got := w.wire.methods(); got != "PATCH GET PATCH" || field(w.live(configMap, "c"), "data") != "" {
		t.Errorf("sent %s", got)
	}
	if line := w.logs.Next(t); line.Message != "dry run: would change" {
		t.Errorf("logged %v", line)
	}
}

// The store may be behind for as long as it likes: a request that was meant to
// create an object never changes one, whoever has applied it and with what.
func TestACreationNeverChangesAnObject(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	at := location{Resource: configMap, key: w.key(configMap, "c"), owned: true}
	for _, manager := range []string{w.manager(target.Controller), "another"} {
		for _, text := range []string{`{"k":"v"}`, `{"k":"other"}`, `{}`} {
			body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":%s}`, text)
			before, err := w.admin.patch(t.Context(), configMap, at.key, patch{patchType: types.ApplyPatchType, manager: manager, force: true, body: body})
			if err != nil {
				t.Fatal(err)
			}
			s := newSession(w.Performer, target)
			a, _, err := s.planApply(t.Context(), abi.Apply{Object: fmt.Appendf(nil, configObject, "v")})
			if err != nil {
				t.Fatal(err)
			}
			err = s.applyTo(t.Context(), a, nil, noVersion)
			if after := w.live(configMap, "c"); !mayExist(err) || after.ResourceVersion != before.ResourceVersion {
				t.Errorf("%s %s: %v, got %s", manager, text, err, after.Raw)
			}
		}
	}
}
