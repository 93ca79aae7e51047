package effect

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// sentRequest is a request that changes something, as a test compares it.
type sentRequest struct{ Method, Path, Query, Body string }

// sent returns a request as a [Performer] without replicas sends it.
func (r *Request) sent() sentRequest {
	s := sentRequest{Method: http.MethodPatch, Path: path.Join(append([]string{"/"}, r.Resource.Path(r.Key)...)...), Body: string(r.Body)}
	switch {
	case r.Type == "":
		return sentRequest{Method: http.MethodDelete, Path: s.Path}
	case r.Create:
		s.Method, s.Path = http.MethodPost, path.Dir(s.Path)
	case r.Status:
		s.Path += "/status"
	}
	s.Query = "fieldManager=" + strings.ReplaceAll(r.Manager, "/", "%2F")
	if r.Create {
		s.Query += "&fieldValidation=Strict"
	}
	if r.Force {
		s.Query += "&force=true"
	}
	return s
}

// TestRequestsAreWhatIsSent performs what a run has decided against an API server that takes everything, and compares
// what arrives there with what is planned without it.
func TestRequestsAreWhatIsSent(t *testing.T) {
	const child = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":"3"%s},"data":{"a":"1"}}`
	const owned = `,"ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"w","uid":"u1","controller":true,"blockOwnerDeletion":true}]`
	intent := func(name, value string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"a":%q}}`, name, value)
	}
	ref := func(name string) abi.Ref { return configMap.Kind.Ref("default", name) }
	generation := int64(1)
	for name, test := range map[string]struct {
		cached     []string
		controller func(*abi.Controller)
		primary    string // instead of the Widget
		want       Wanted
		verbs      []string
		failures   []string // reasons
	}{
		"nothing": {},
		"a finalizer, and an object that does not exist": {
			want:  Wanted{Finalizer: true, Result: &abi.Result{Apply: []abi.Apply{{Object: intent("new", "1")}}}},
			verbs: []string{abi.VerbFinalizer, abi.VerbApply},
		},
		"what exists is forced if it is owned": {
			cached: []string{fmt.Sprintf(child, "mine", "m", owned)},
			want:   Wanted{Result: &abi.Result{Apply: []abi.Apply{{Object: intent("mine", "2")}}}},
			verbs:  []string{abi.VerbApply},
		},
		"an adoption with fields, and one without": {
			cached: []string{fmt.Sprintf(child, "free", "f", ""), fmt.Sprintf(child, "alone", "l", "")},
			want: Wanted{Result: &abi.Result{Apply: []abi.Apply{
				{Object: intent("free", "2"), Adopt: true},
				{Object: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"alone"}}`), Adopt: true},
			}}},
			verbs: []string{abi.VerbApply, abi.VerbApply},
		},
		"creations": {
			want:  Wanted{Result: &abi.Result{Apply: []abi.Apply{{Object: intent("once", "1"), Create: true}}}},
			verbs: []string{abi.VerbApply},
		},
		"a release, a delete, and one of what is not there": {
			cached: []string{fmt.Sprintf(child, "old", "o", owned), fmt.Sprintf(child, "given", "g", owned)},
			want: Wanted{Result: &abi.Result{
				Release: []abi.Ref{ref("given")},
				Delete:  []abi.Delete{{Ref: ref("old")}, {Ref: ref("none")}},
			}},
			verbs: []string{abi.VerbRelease, abi.VerbDelete},
		},
		"a delete of what is being deleted": {
			cached: []string{fmt.Sprintf(child, "going", "d", owned+`,"deletionTimestamp":"2026-11-20T10:00:00Z"`)},
			want:   Wanted{Result: &abi.Result{Delete: []abi.Delete{{Ref: ref("going")}}}},
		},
		"an apply of what shows the intent": {
			cached: []string{strings.Replace(fmt.Sprintf(child, "same", "i", owned), `"uid"`,
				`"annotations":{"thole.dev/applied":"`+digestOf(t, "same")+`"},"uid"`, 1)},
			want: Wanted{Result: &abi.Result{Apply: []abi.Apply{{Object: intent("same", "1")}}}},
		},
		"what is not named any more is pruned": {
			cached:     []string{pruned},
			controller: func(c *abi.Controller) { c.Prune = true },
			want:       Wanted{Result: &abi.Result{Prune: true}},
			verbs:      []string{abi.VerbDelete},
		},
		"a kind that others write, too": {
			cached:     []string{fmt.Sprintf(child, "shared", "s", "")},
			controller: func(c *abi.Controller) { c.Owns, c.Writes = nil, []abi.Kind{configMap.Kind} },
			want:       Wanted{Result: &abi.Result{Apply: []abi.Apply{{Object: intent("fresh", "1")}}}},
			verbs:      []string{abi.VerbApply},
		},
		"fields of an object that exists": {
			cached:     []string{fmt.Sprintf(child, "shared", "s", "")},
			controller: func(c *abi.Controller) { c.Owns, c.Writes = nil, []abi.Kind{configMap.Kind} },
			want:       Wanted{Result: &abi.Result{Apply: []abi.Apply{{Object: intent("shared", "2")}}}},
			verbs:      []string{abi.VerbApply},
		},
		"a patch that changes something": {
			want:  Wanted{Result: &abi.Result{Patch: []byte(`{"metadata":{"labels":{"a":"b"}}}`)}},
			verbs: []string{abi.VerbPatch},
		},
		"a patch that changes nothing": {
			want: Wanted{Result: &abi.Result{Patch: []byte(`{"spec":{}}`)}},
		},
		"the status of guest and host": {
			want: Wanted{Status: Status{
				Patch: []byte(`{"phase":"Done"}`), ObservedGeneration: &generation,
				Set: []abi.Condition{{Type: "Ready", Status: abi.ConditionTrue, Reason: "Succeeded"}},
			}},
			verbs: []string{abi.VerbStatus},
		},
		"the end of a cleanup": {
			primary: `{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"w","namespace":"default","uid":"u1","resourceVersion":"5","generation":1,` +
				`"deletionTimestamp":"2026-11-20T10:00:00Z","finalizers":["other/a","demo.thole.dev/main"]}}`,
			want:  Wanted{Removal: true},
			verbs: []string{abi.VerbFinalizer},
		},
		"a group fails alone": {
			cached: []string{fmt.Sprintf(child, "theirs", "t", strings.ReplaceAll(owned, "u1", "u2"))},
			want: Wanted{Result: &abi.Result{Apply: []abi.Apply{
				{Object: intent("theirs", "1"), Group: "g"}, {Object: intent("skipped", "1"), Group: "g"}, {Object: intent("new", "1")},
			}}},
			verbs: []string{abi.VerbApply}, failures: []string{reasonControlled},
		},
		"what follows a failure is not sent": {
			cached: []string{fmt.Sprintf(child, "free", "f", "")},
			want: Wanted{Result: &abi.Result{Apply: []abi.Apply{
				{Object: intent("new", "1")}, {Object: intent("free", "1")}, {Object: intent("never", "1")},
			}}},
			verbs: []string{abi.VerbApply}, failures: []string{reasonNotAdopted},
		},
		"nothing is sent of a result with an undeclared kind": {
			want: Wanted{Result: &abi.Result{Apply: []abi.Apply{
				{Object: intent("new", "1")}, {Object: []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`)},
			}}},
			failures: []string{reasonNotDeclared},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, target := newFake(t, takeEverything(t, test.cached))
			if test.primary != "" {
				target.Object = parse(t, test.primary)
			}
			if test.controller != nil {
				test.controller(target.Controller)
			}
			for _, text := range test.cached {
				w.store.put(parse(t, text))
			}
			planner := w.Planner
			requests, failures := planner.Requests(t.Context(), target, test.want)
			var planned []sentRequest
			var verbs, reasons []string
			for _, r := range requests {
				planned, verbs = append(planned, r.sent()), append(verbs, r.Verb)
			}
			for _, f := range failures {
				reasons = append(reasons, f.Reason)
			}
			if !slices.Equal(verbs, test.verbs) || !slices.Equal(reasons, test.failures) {
				t.Errorf("planned %v with failures %v; want %v and %v", verbs, reasons, test.verbs, test.failures)
			}
			performed := perform(t, w, target, test.want)
			if !slices.Equal(performed, reasons) {
				t.Errorf("the performer fails with %v, the plan with %v", performed, reasons)
			}
			var sent []sentRequest
			for _, r := range w.wire.take() {
				switch r.method {
				case http.MethodGet:
				case http.MethodDelete:
					sent = append(sent, sentRequest{Method: r.method, Path: r.path})
				default:
					sent = append(sent, sentRequest{r.method, r.path, r.query, r.body})
				}
			}
			if !slices.Equal(sent, planned) {
				t.Errorf("sent:\n%+v\nplanned:\n%+v", sent, planned)
			}
		})
	}
}

// pruned is a ConfigMap that the controller has created for the Widget.
const pruned = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"pruned","namespace":"default","uid":"p","resourceVersion":"3",` +
	`"labels":{"thole.dev/applied-by":"demo.main"},` +
	`"ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"w","uid":"u1","controller":true,"blockOwnerDeletion":true}],` +
	`"managedFields":[{"manager":"thole/demo/main","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1",` +
	`"fieldsV1":{"f:metadata":{"f:labels":{"f:thole.dev/applied-by":{}}}}}]}}`

// digestOf returns the digest of an intent for a ConfigMap that the Widget owns.
func digestOf(t *testing.T, name string) string {
	t.Helper()
	p := Planner{Plugin: "demo", Store: &store{}, Allow: allowing()}
	var plan plan
	text := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"a":"1"}}`, name)
	target := Target{Controller: controller(list(configMap), nil), Object: parse(t, primary)}
	if failure := plan.check(t.Context(), &p, target, &abi.Result{Apply: []abi.Apply{{Object: text}}}, false); failure != nil {
		t.Fatal(failure)
	}
	return plan.applies[0].value(nil)
}

// perform performs what a run has decided, and returns the reasons of its failures.
func perform(t *testing.T, w *world, target Target, want Wanted) (reasons []string) {
	t.Helper()
	steps := []func() (Report, *Failure){
		func() (Report, *Failure) { return w.EnsureFinalizer(t.Context(), target) },
		func() (Report, *Failure) { return w.PerformIntents(t.Context(), target, want.Result) },
		func() (Report, *Failure) { return w.WriteStatus(t.Context(), target, want.Status) },
		func() (Report, *Failure) { return w.RemoveFinalizer(t.Context(), target) },
	}
	for i, wanted := range []bool{want.Finalizer, want.Result != nil, true, want.Removal} {
		if !wanted {
			continue
		}
		report, failure := steps[i]()
		for _, f := range report.Groups {
			reasons = append(reasons, f.Reason)
		}
		if failure != nil {
			return append(reasons, failure.Reason)
		}
	}
	return reasons
}

// takeEverything is an API server that has these objects and the Widget, and answers each write with an object of the
// next version.
func takeEverything(t *testing.T, objects []string) http.HandlerFunc {
	byName := map[string]string{"w": primary}
	for _, text := range objects {
		byName[parse(t, text).Name] = text
	}
	return func(out http.ResponseWriter, r *http.Request) {
		switch have := byName[path.Base(r.URL.Path)]; {
		case r.Method == http.MethodGet && have != "":
			respond(http.StatusOK, "application/json", have)(out, r)
		case r.Method == http.MethodGet:
			respondStatus(http.StatusNotFound, "NotFound", "not found", "")(out, r)
		case r.Method == http.MethodDelete:
			respond(http.StatusOK, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Success"}`)(out, r)
		default:
			body, err := io.ReadAll(r.Body)
			if err == nil && r.Header.Get("Content-Type") == string(types.JSONPatchType) {
				body = []byte(primary)
			}
			var reply []byte
			if err == nil {
				reply, err = rawjson.MergePatch(body, []byte(`{`+kindOf(r.URL.Path)+`,"metadata":{"name":"w","namespace":"default","resourceVersion":"9","uid":"u1"}}`))
			}
			if err != nil {
				t.Error(err)
			}
			respond(http.StatusOK, "application/json", string(reply))(out, r)
		}
	}
}

func kindOf(path string) string {
	if strings.HasPrefix(path, "/api/") {
		return `"apiVersion":"v1","kind":"ConfigMap"`
	}
	return `"apiVersion":"test.thole.dev/v1","kind":"Widget"`
}
