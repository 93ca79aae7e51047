package effect

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/rights"
)

func TestErrorsAreClassified(t *testing.T) {
	outages := map[string]bool{
		"an internal error": true, "too many requests": true, "an HTML reply of a proxy": true, "a closed connection": true,
	}
	for name, c := range map[string]struct {
		handler  http.HandlerFunc
		class    abi.Class
		reason   string
		message  string
		conflict bool
	}{
		"a missing right in a namespace": {
			respondStatus(403, "Forbidden", `configmaps "c" is forbidden: User "system:serviceaccount:x:y" cannot patch resource "configmaps" in API group "" in the namespace "default"`, ""),
			abi.ClassDenied, "Forbidden", `"system:serviceaccount:x:y" lacks a right: add to a Role in namespace "default" the rule {apiGroups: [''], resources: ['configmaps'], verbs: ['patch']}`, false,
		},
		"a missing right at the cluster scope": {
			respondStatus(403, "Forbidden", `x is forbidden: User "u" cannot patch resource "widgets/status" in API group "test.thole.dev" at the cluster scope: no rule`, ""),
			abi.ClassDenied, "Forbidden", `a ClusterRole the rule {apiGroups: ['test.thole.dev'], resources: ['widgets/status'], verbs: ['patch']}`, false,
		},
		"a missing right to set blockOwnerDeletion": {
			respondStatus(403, "Forbidden", `configmaps "c" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>`, ""),
			abi.ClassDenied, "Forbidden", `"update" on the subresource "finalizers"`, false,
		},
		"a refusal of an admission webhook": {
			respondStatus(403, "Forbidden", `admission webhook "x" denied the request: no`, ""),
			abi.ClassRetry, "Forbidden", "denied the request: no", false,
		},
		"a namespace that is terminating": {
			respondStatus(403, "Forbidden", `configmaps "c" is forbidden: unable to create new content in namespace default because it is being terminated`, `{"reason":"NamespaceTerminating","field":"metadata.namespace"}`),
			abi.ClassStalled, reasonNamespaceTerminating, "being terminated", false,
		},
		"fields that another manager owns": {
			respondStatus(409, "Conflict", "Apply failed with 2 conflicts: conflicts with \"kubectl\":\n- .data.a\n- .data.b", `{"reason":"FieldManagerConflict","message":"conflict with \"kubectl\"","field":".data.a"}`),
			abi.ClassRetry, reasonFieldConflict, `conflicts with "kubectl": - .data.a - .data.b; leave these fields out`, false,
		},
		"a newer resourceVersion": {
			respondStatus(409, "Conflict", "the object has been modified", ""),
			abi.ClassRetry, "Conflict", "modified", true,
		},
		"a field that the schema refuses": {
			respondStatus(422, "Invalid", `ConfigMap "c" is invalid: data.k: Too long`, `{"reason":"FieldValueTooLong","field":"data.k"}`),
			abi.ClassRetry, "Invalid", "data.k: Too long", false,
		},
		"another uid": {
			respondStatus(422, "Invalid", `ConfigMap "c" is invalid: metadata.uid: field is immutable`, `{"reason":"FieldValueInvalid","field":"metadata.uid"}`),
			abi.ClassRetry, "Invalid", "metadata.uid", true,
		},
		"a namespace that does not exist": {
			respondStatus(404, "NotFound", `namespaces "default" not found`, ""),
			abi.ClassRetry, "NotFound", `namespaces "default" not found`, false,
		},
		"an internal error": {
			respondStatus(500, "InternalError", "etcd is away", ""),
			abi.ClassRetry, "InternalError", "etcd is away", false,
		},
		"too many requests": {
			respondStatus(429, "TooManyRequests", "slow down", ""),
			abi.ClassRetry, "TooManyRequests", "slow down", false,
		},
		"an HTML reply of a proxy": {
			respond(502, "text/html", "<h1>Bad Gateway</h1>"),
			abi.ClassRetry, "InternalError", "Bad Gateway", false,
		},
		"a reply that is not an object": {
			respond(200, "application/json", "{"),
			abi.ClassRetry, reasonUnavailable, "parse object", false,
		},
		"a closed connection": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			abi.ClassRetry, reasonUnavailable, "EOF", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, target := newFake(t, c.handler)
			w.store.put(parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default","uid":"u2","resourceVersion":"6","ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"w","uid":"u1","controller":true}]}}`))
			_, got := w.PerformIntents(t.Context(), target, apply(configObject, "v"))
			if got == nil || got.Class != c.class || got.Reason != c.reason || got.Conflict != c.conflict || !strings.Contains(got.Message, c.message) {
				t.Fatalf("got %+v", got)
			}
			if outage := outages[name]; got.Outage != outage {
				t.Errorf("an outage: %v, want %v", got.Outage, outage)
			}
			if got.Unwrap() == nil {
				t.Error("the failure has no cause")
			}
		})
	}
}

// The API server answers reads: that it fails for each write of the same is due to what is written.
func TestAnInternalErrorOfAServerThatAnswersIsDueToTheEffect(t *testing.T) {
	for name, perform := range map[string]func(w *world, target Target) *Failure{
		"apply": func(w *world, target Target) *Failure {
			_, failure := w.PerformIntents(t.Context(), target, apply(configObject, "v"))
			return failure
		},
		"patch": func(w *world, target Target) *Failure {
			_, failure := w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"spec":{"n":7}}`)})
			return failure
		},
		"status": func(w *world, target Target) *Failure {
			_, failure := w.WriteStatus(t.Context(), target, Status{Patch: []byte(`{"n":7}`)})
			return failure
		},
		"the host's part of the status": func(w *world, target Target) *Failure {
			_, failure := w.WriteStatus(t.Context(), target, Status{Set: []abi.Condition{{Type: "Ready", Status: "True", Reason: "Succeeded"}}})
			return failure
		},
		"finalizer": func(w *world, target Target) *Failure {
			_, failure := w.EnsureFinalizer(t.Context(), target)
			return failure
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, target := newFake(t, respondStatus(500, "InternalError", "it cannot be decoded", ""))
			if failure := perform(w, target); failure == nil || !failure.Internal || !failure.Outage || failure.Reason != "InternalError" {
				t.Errorf("at first: %+v", failure)
			}
			target.NoOutage = true
			hosts := name == "finalizer" || strings.HasPrefix(name, "the host's")
			failure := perform(w, target)
			if failure == nil || !failure.Internal || !failure.Uncertain || failure.Outage != hosts || (failure.Reason == "Invalid") == hosts || !strings.Contains(failure.Message, "it cannot be decoded") {
				t.Errorf("without an outage: %+v", failure)
			}
		})
	}
}

func TestFailureWrapsItsCause(t *testing.T) {
	w, target := newFake(t, respondStatus(409, "Conflict", "the object has been modified", ""))
	_, failure := w.EnsureFinalizer(t.Context(), target)
	if failure == nil {
		t.Fatal("no failure")
	}
	var err error = failure
	// The read that follows the conflict fails like the write.
	if want := "finalizer test.thole.dev/v1 Widget default/w: the object has been modified"; err.Error() != want || !apierrors.IsConflict(err) {
		t.Errorf("got %q", err)
	}
	var found *Failure
	if !errors.As(fmt.Errorf("wrapped: %w", err), &found) || found != failure {
		t.Error("errors.As does not find the failure")
	}
}

// The test grants the right that each failure names, until all effects succeed.
func TestFailuresNameEachMissingRight(t *testing.T) {
	w := newCluster(t)
	account := "system:serviceaccount:" + w.ns + ":plugin"
	w.start(func(c *Config) { c.Account = rights.Account{Namespace: w.ns, Name: "plugin"} })
	target := w.owner(list(configMap), nil)
	w.create(roleBinding, fmt.Sprintf(`{"metadata":{"name":"r"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},
"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, account))
	var rules []string
	w.create(role, `{"metadata":{"name":"r"}}`)

	everything := func() *Failure {
		target.Object = w.live(widget, "w")
		if _, failure := w.EnsureFinalizer(t.Context(), target); failure != nil {
			return failure
		}
		if _, failure := w.PerformIntents(t.Context(), target, apply(configObject, "v")); failure != nil {
			return failure
		}
		target.Object = w.live(widget, "w")
		_, failure := w.WriteStatus(t.Context(), target, ready("True", 1))
		return failure
	}
	for failure := everything(); failure != nil; failure = everything() {
		if failure.Class != abi.ClassDenied || failure.Reason != "Forbidden" {
			t.Fatalf("got %+v", failure)
		}
		start, end := strings.Index(failure.Message, "{apiGroups"), strings.Index(failure.Message, "}")
		if start < 0 || !strings.Contains(failure.Message, fmt.Sprintf("Role in namespace %q", w.ns)) || len(rules) == 10 {
			t.Fatalf("got %+v after %v", failure, rules)
		}
		rule := failure.Message[start : end+1]
		rules = append(rules, strings.NewReplacer("'", `"`, "apiGroups", `"apiGroups"`, "resources", `"resources"`, "verbs", `"verbs"`).Replace(rule))
		w.edit(role, "r", "", `{"rules":[`+strings.Join(rules, ",")+`]}`)
		w.until("the authorizer applies the rule "+rule, func() bool {
			next := everything()
			return next == nil || next.Message != failure.Message
		})
	}
	// The store never has the ConfigMap, so that it is read when it exists.
	want := []string{"patch widgets", "patch configmaps", "create configmaps", "get configmaps", "patch widgets/status"}
	if len(rules) != len(want) {
		t.Fatalf("rules are %v", rules)
	}
	for i, rule := range rules {
		verb, resource, _ := strings.Cut(want[i], " ")
		if !strings.Contains(rule, `["`+verb+`"]`) || !strings.Contains(rule, `["`+resource+`"]`) {
			t.Errorf("rule %d is %s, want %s", i, rule, want[i])
		}
	}
}

func TestOtherRefusalsAreRetried(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(pod, configMap), nil)
	_, failure := w.PerformIntents(t.Context(), target, apply(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[]}}`))
	if failure == nil || failure.Class != abi.ClassRetry || failure.Reason != "Invalid" || !strings.Contains(failure.Message, "spec.containers") {
		t.Errorf("got %+v", failure)
	}
	if failure != nil && (failure.Verb != "apply" || failure.Ref != abi.Ref{APIVersion: "v1", Kind: "Pod", Namespace: w.ns, Name: "x"}) {
		t.Errorf("got %+v", failure)
	}
}

// terminatingNamespace returns a world whose namespace is being deleted and cannot
// go, and a primary that owns two ConfigMaps, to change and to delete.
func terminatingNamespace(t *testing.T) (w *world, target Target) {
	w = newCluster(t)
	target = w.owner(list(configMap), nil)
	for _, name := range []string{"c", "old"} {
		w.intents(target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"finalizers":["other.dev/x"]}}`, name))
		w.seen(configMap, name)
	}
	w.remove(namespace, w.ns)
	w.until("nothing can be created", func() bool {
		_, failure := w.PerformIntents(t.Context(), target, apply(newObject))
		return failure != nil
	})
	w.wire.take()
	return w, target
}

const newObject = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}`

// createChangeDelete creates new, changes c and deletes old.
func (w *world) createChangeDelete(target Target) *Failure {
	in := apply(newObject)
	in.Apply = append(in.Apply, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","finalizers":["other.dev/x"]},"data":{"k":"changed"}}`).Apply...)
	in.Delete = []abi.Delete{{Ref: abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "old"}}}
	_, failure := w.PerformIntents(w.Context(), target, in)
	maps := "/api/v1/namespaces/" + w.ns + "/configmaps/"
	var writes []string
	for _, r := range w.wire.take() {
		if r.method != http.MethodGet {
			writes = append(writes, r.method+" "+r.path)
		}
	}
	want := []string{"PATCH " + maps + "new", "PATCH " + maps + "c", "DELETE " + maps + "old"}
	if !slices.Equal(writes, want) || field(w.live(configMap, "c"), "data", "k") != `"changed"` {
		w.Errorf("wrote %q, c is %s", writes, w.live(configMap, "c").Raw)
	}
	return failure
}

// The API server refuses creations until the namespace is gone, and the primary with
// it. It allows everything else.
func TestCreationInATerminatingNamespaceIsNotRetried(t *testing.T) {
	w, target := terminatingNamespace(t)
	failure := w.createChangeDelete(target)
	if failure == nil || failure.Class != abi.ClassStalled || failure.Reason != reasonNamespaceTerminating ||
		failure.Ref.Name != "new" || !strings.Contains(failure.Message, "being terminated") {
		t.Errorf("got %+v", failure)
	}
}

func TestCleanupInATerminatingNamespaceGoesOn(t *testing.T) {
	w, target := terminatingNamespace(t)
	deleting := strings.Replace(string(target.Object.Raw), `"metadata":{`, `"metadata":{"deletionTimestamp":"2026-11-20T10:00:00Z",`, 1)
	target.Object = parse(t, deleting)
	if failure := w.createChangeDelete(target); failure != nil {
		t.Errorf("got %+v", failure)
	}
}

// It has no deletionTimestamp, since nothing has held it.
func TestARunForAnObjectThatIsGoneGoesOnInATerminatingNamespace(t *testing.T) {
	w, target := terminatingNamespace(t)
	w.start(func(c *Config) { c.Allow = allowing(rights.Any) })
	target.Controller.Owns, target.Controller.Writes, target.Gone = nil, []abi.Kind{configMap.Kind}, true
	_, failure := w.PerformIntents(t.Context(), target, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}`))
	if failure != nil {
		t.Errorf("got %+v", failure)
	}
}

// The namespace of another object may be created again, and nothing makes the
// primary due then.
func TestCreationInAnotherTerminatingNamespaceIsRetried(t *testing.T) {
	w, target := terminatingNamespace(t)
	w.start(func(c *Config) { c.Allow = allowing(rights.Any) })
	target.Controller.Owns, target.Controller.Writes = nil, []abi.Kind{configMap.Kind}
	object := apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","namespace":%q}}`, w.ns)
	elsewhere := strings.Replace(string(target.Object.Raw), w.ns, "default", 1)
	_, failure := w.PerformIntents(t.Context(), Target{Controller: target.Controller, Object: parse(t, elsewhere)}, object)
	if failure == nil || failure.Class != abi.ClassRetry || failure.Reason != reasonNamespaceTerminating {
		t.Errorf("got %+v", failure)
	}
}

// The API server puts a refused Pod template, with its environment, before the reason.
func TestTheReasonSurvivesALongValue(t *testing.T) {
	const value = "the value of a variable"
	w := newCluster(t)
	target := w.owner(list(job, statefulSet), nil)
	var env []string
	for i := range 60 {
		env = append(env, fmt.Sprintf(`{"name":"VAR_%d","value":%q}`, i, value))
	}
	template := func(image, restart string) string {
		return fmt.Sprintf(`{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":%q,"containers":[{"name":"c","image":%q,"env":[%s]}]}}`, restart, image, strings.Join(env, ","))
	}
	jobOf := func(image string) string {
		return `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":{"suspend":true,"template":` + template(image, "Never") + `}}`
	}
	w.intents(target, &abi.Result{Apply: []abi.Apply{{Object: []byte(jobOf("one"))}}})
	for name, c := range map[string]struct {
		text  string
		wants []string
	}{
		"a field that never changes": {jobOf("two"), []string{"spec.template", "field is immutable"}},
		"a value of another kind": {
			`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"s"},"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"c"}},"template":` + template("one", "Always") + `}}`,
			[]string{"spec.template.metadata.labels", "`selector` does not match template `labels`"},
		},
		"a long text": {
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"l","labels":{"a":"` + strings.Repeat("x", 5000) + `"}},"spec":{"template":` + template("one", "Never") + `}}`,
			[]string{"metadata.labels", "must be no more than 63"},
		},
	} {
		_, failure := w.PerformIntents(t.Context(), target, &abi.Result{Apply: []abi.Apply{{Object: []byte(c.text)}}})
		if failure == nil {
			t.Errorf("%s: no failure", name)
			continue
		}
		for _, want := range c.wants {
			if !strings.Contains(failure.Message, want) {
				t.Errorf("%s: %q is missing in %q", name, want, failure.Message)
			}
		}
		if strings.Contains(failure.Message, value) || len(failure.Message) > 1000 {
			t.Errorf("%s: a value is in %d bytes: %q", name, len(failure.Message), failure.Message)
		}
	}
}
