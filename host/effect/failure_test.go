package effect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
)

const primary = `{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"w","namespace":"default","uid":"u1","resourceVersion":"5","generation":1},"spec":{}}`

// newFake makes a world whose API server is the handler.
func newFake(t *testing.T, handler http.HandlerFunc, change ...func(*Config)) (*world, Target) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	w := newWorld(t, &rest.Config{Host: server.URL}, change...)
	return w, Target{controller(list(configMap), nil), parse(t, primary)}
}

func answer(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func failure(code int, reason, message, causes string) http.HandlerFunc {
	return answer(code, "application/json", fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Status","status":"Failure","message":%q,"reason":%q,"code":%d,"details":{"causes":[%s]}}`, message, reason, code, causes))
}

func TestWhatAnErrorMeans(t *testing.T) {
	for name, c := range map[string]struct {
		handler  http.HandlerFunc
		class    abi.Class
		reason   string
		message  string
		conflict bool
	}{
		"no right in a namespace": {
			failure(403, "Forbidden", `configmaps "c" is forbidden: User "system:serviceaccount:x:y" cannot patch resource "configmaps" in API group "" in the namespace "default"`, ""),
			abi.ClassDenied, "Forbidden", `"system:serviceaccount:x:y" lacks a right: add to a Role in namespace "default" the rule {apiGroups: [""], resources: ["configmaps"], verbs: ["patch"]}`, false,
		},
		"no right in the cluster": {
			failure(403, "Forbidden", `x is forbidden: User "u" cannot patch resource "widgets/status" in API group "test.thole.dev" at the cluster scope: no rule`, ""),
			abi.ClassDenied, "Forbidden", `a ClusterRole the rule {apiGroups: ["test.thole.dev"], resources: ["widgets/status"], verbs: ["patch"]}`, false,
		},
		"no right to block the owner's deletion": {
			failure(403, "Forbidden", `configmaps "c" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>`, ""),
			abi.ClassDenied, "Forbidden", `"update" on the subresource "finalizers"`, false,
		},
		"an admission plugin": {
			failure(403, "Forbidden", `admission webhook "x" denied the request: no`, ""),
			abi.ClassRetry, "Forbidden", "denied the request: no", false,
		},
		"a namespace that goes": {
			failure(403, "Forbidden", `configmaps "c" is forbidden: unable to create new content in namespace default because it is being terminated`, `{"reason":"NamespaceTerminating","field":"metadata.namespace"}`),
			abi.ClassRetry, "Forbidden", "being terminated", false,
		},
		"fields of another manager": {
			failure(409, "Conflict", "Apply failed with 2 conflicts: conflicts with \"kubectl\":\n- .data.a\n- .data.b", `{"reason":"FieldManagerConflict","message":"conflict with \"kubectl\"","field":".data.a"}`),
			abi.ClassRetry, reasonFields, `conflicts with "kubectl": - .data.a - .data.b; leave these fields out`, false,
		},
		"a newer version": {
			failure(409, "Conflict", "the object has been modified", ""),
			abi.ClassRetry, "Conflict", "modified", true,
		},
		"a field of the schema": {
			failure(422, "Invalid", `ConfigMap "c" is invalid: data.k: Too long`, `{"reason":"FieldValueTooLong","field":"data.k"}`),
			abi.ClassRetry, "Invalid", "data.k: Too long", false,
		},
		"another object of the name": {
			failure(422, "Invalid", `ConfigMap "c" is invalid: metadata.uid: field is immutable`, `{"reason":"FieldValueInvalid","field":"metadata.uid"}`),
			abi.ClassRetry, "Invalid", "metadata.uid", true,
		},
		"a namespace that is not there": {
			failure(404, "NotFound", `namespaces "default" not found`, ""),
			abi.ClassRetry, "NotFound", `namespaces "default" not found`, false,
		},
		"a failure of the server": {
			failure(500, "InternalError", "etcd is away", ""),
			abi.ClassRetry, "InternalError", "etcd is away", false,
		},
		"too many requests": {
			failure(429, "TooManyRequests", "slow down", ""),
			abi.ClassRetry, "TooManyRequests", "slow down", false,
		},
		"a proxy": {
			answer(502, "text/html", "<h1>Bad Gateway</h1>"),
			abi.ClassRetry, "InternalError", "Bad Gateway", false,
		},
		"an answer that is none": {
			answer(200, "application/json", "{"),
			abi.ClassRetry, reasonUnavailable, "parse object", false,
		},
		"nothing": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			abi.ClassRetry, reasonUnavailable, "EOF", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, target := newFake(t, c.handler)
			w.store.put(parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default","uid":"u2","resourceVersion":"6","ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"w","uid":"u1","controller":true}]}}`))
			_, got := w.Intents(t.Context(), target, apply(configObject, "v"))
			if got == nil || got.Class != c.class || got.Reason != c.reason || got.Conflict != c.conflict || !strings.Contains(got.Message, c.message) {
				t.Fatalf("got %+v", got)
			}
			if got.Unwrap() == nil {
				t.Error("the cause is lost")
			}
		})
	}
}

func TestFailureIsAnError(t *testing.T) {
	w, target := newFake(t, failure(409, "Conflict", "the object has been modified", ""))
	_, _, failure := w.EnsureFinalizer(t.Context(), target)
	if failure == nil {
		t.Fatal("no failure")
	}
	var err error = failure
	// The reread that follows a conflict is refused like the write.
	if want := "finalizer test.thole.dev/v1 Widget default/w: the object has been modified"; err.Error() != want || !apierrors.IsConflict(err) {
		t.Errorf("got %q", err)
	}
	var again *Failure
	if !errors.As(fmt.Errorf("wrapped: %w", err), &again) || again != failure {
		t.Error("not found by errors.As")
	}
}

func TestAHangingServerHoldsNoWorker(t *testing.T) {
	release := make(chan struct{})
	w, target := newFake(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}, func(c *Config) { c.Timeout = 20 * time.Millisecond })
	defer close(release)
	_, _, failure := w.Status(t.Context(), target, Status{Patch: []byte(`{"a":1}`)})
	if failure == nil || failure.Class != abi.ClassRetry || failure.Reason != "Timeout" {
		t.Errorf("got %+v", failure)
	}
}

func TestShutdownEndsAWaitForTheRateLimit(t *testing.T) {
	w, target := newFake(t, answer(200, "application/json", primary), func(c *Config) { c.QPS, c.Burst = 0.001, 1 })
	if _, failure := w.Intents(t.Context(), target, Intents{Patch: []byte(`{"spec":{"a":1}}`)}); failure != nil {
		t.Fatal(failure)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, failure := w.Intents(ctx, target, Intents{Patch: []byte(`{"spec":{"a":2}}`)})
	if failure == nil || !errors.Is(failure, context.Canceled) {
		t.Errorf("got %+v", failure)
	}
}

func TestAKindThatIsNotServed(t *testing.T) {
	w, target := newFake(t, answer(500, "", ""))
	target.Controller.Owns = append(target.Controller.Owns, abi.Kind{APIVersion: "new.dev/v1", Kind: "Thing"})
	_, failure := w.Intents(t.Context(), target, apply(`{"apiVersion":"new.dev/v1","kind":"Thing","metadata":{"name":"x"}}`))
	if failure == nil || failure.Class != abi.ClassRetry || failure.Reason != "KindNotServed" || !strings.Contains(failure.Message, "new.dev/v1 Thing") {
		t.Errorf("got %+v", failure)
	}
	w.expectSent()
}

func TestWarningsOfTheServerAreLoggedOnce(t *testing.T) {
	w, target := newFake(t, func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Warning", `299 - "unknown field \"spec.x\""`)
		answer(200, "application/json", primary)(out, nil)
	})
	for i := range 3 {
		_, failure := w.Intents(t.Context(), target, Intents{Patch: fmt.Appendf(nil, `{"spec":{"a":%d}}`, i)})
		if failure != nil {
			t.Fatal(failure)
		}
	}
	if n := strings.Count(w.log.String(), "unknown field"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &w.log)
	}
}

func TestRequestsAreWhatTheyClaim(t *testing.T) {
	w, target := newFake(t, answer(200, "application/json", primary))
	target.Object = parse(t, strings.Replace(primary, `"generation"`, `"finalizers":["a/b"],"generation"`, 1))
	target.Object.Annotations = nil
	_, _, failure := w.EnsureFinalizer(t.Context(), target)
	if failure != nil {
		t.Fatal(failure)
	}
	_, failure = w.Intents(t.Context(), target, Intents{Patch: []byte(`{"spec":{"big":12345678901234567890}}`)})
	if failure != nil {
		t.Fatal(failure)
	}
	_, _, failure = w.Status(t.Context(), target, Status{Patch: []byte(`{"x":null,"y":"z"}`)})
	if failure != nil {
		t.Fatal(failure)
	}
	want := []request{
		{
			"PATCH", "/apis/test.thole.dev/v1/namespaces/default/widgets/w", "fieldManager=thole%2Fdemo%2Fmain", jsonPatch, "thole/1.2.3 plugin/demo",
			`[{"op":"test","path":"/metadata/uid","value":"u1"},{"op":"test","path":"/metadata/finalizers","value":["a/b"]},{"op":"add","path":"/metadata/finalizers","value":["a/b","demo.thole.dev/main"]}]`,
		},
		{
			"PATCH", "/apis/test.thole.dev/v1/namespaces/default/widgets/w", "fieldManager=thole%2Fdemo%2Fmain", mergePatch, "thole/1.2.3 plugin/demo",
			`{"spec":{"big":12345678901234567890},"metadata":{"uid":"u1"}}`,
		},
		{
			"PATCH", "/apis/test.thole.dev/v1/namespaces/default/widgets/w/status", "fieldManager=thole%2Fdemo%2Fmain", mergePatch, "thole/1.2.3 plugin/demo",
			`{"metadata":{"resourceVersion":"5"},"status":{"y":"z"}}`,
		},
	}
	for i, got := range w.wire.take() {
		if i >= len(want) || got != want[i] {
			t.Errorf("request %d is\n%+v", i, got)
		}
	}
}

func TestConfig(t *testing.T) {
	good := Config{REST: &rest.Config{}, Plugin: "demo", Store: &store{}, Recorder: &recorder{}}
	for name, change := range map[string]func(*Config){
		"no cluster":  func(c *Config) { c.REST = nil },
		"no store":    func(c *Config) { c.Store = nil },
		"no recorder": func(c *Config) { c.Recorder = nil },
		"no name":     func(c *Config) { c.Plugin = "" },
		"a bad name":  func(c *Config) { c.Plugin = "A/B" },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	p, err := New(good)
	if err != nil || p.QPS != DefaultQPS || p.Burst != DefaultBurst || p.Timeout != DefaultTimeout {
		t.Errorf("got %+v %v", p, err)
	}
}

func TestFieldManagerFits(t *testing.T) {
	p := &Performer{Config: Config{Plugin: strings.Repeat("p", 63)}}
	long := &abi.Controller{Name: strings.Repeat("c", 63)}
	other := &abi.Controller{Name: strings.Repeat("c", 62) + "d"}
	if got := p.manager(long); len(got) > maxManager || got == p.manager(other) || !strings.HasPrefix(got, "thole/ppp") {
		t.Errorf("got %q", got)
	}
}
