package effect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestConfigIsValidated(t *testing.T) {
	good := Config{REST: &rest.Config{}, Plugin: "demo", Store: &store{}, Recorder: &recorder{}}
	for name, change := range map[string]func(*Config){
		"no cluster":  func(c *Config) { c.REST = nil },
		"no store":    func(c *Config) { c.Store = nil },
		"no recorder": func(c *Config) { c.Recorder = nil },
		"no plugin":   func(c *Config) { c.Plugin = "" },
		"not a label": func(c *Config) { c.Plugin = "A/B" },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	p, err := New(good)
	if err != nil || p.QPS != 20 || p.Burst != 40 || p.Timeout != 30*time.Second {
		t.Errorf("got %+v %v", p, err)
	}
}

func TestLongFieldManagersAreShortenedAndDistinct(t *testing.T) {
	p := &Performer{Config: Config{Plugin: strings.Repeat("p", 63)}}
	long := &abi.Controller{Name: strings.Repeat("c", 63)}
	other := &abi.Controller{Name: strings.Repeat("c", 62) + "d"}
	if got := p.manager(long); len(got) > maxManager || got == p.manager(other) || !strings.HasPrefix(got, "thole/ppp") {
		t.Errorf("got %q", got)
	}
}

func TestRequestsHaveTheirMediaTypeManagerAndBody(t *testing.T) {
	w, target := newFake(t, respond(200, "application/json", primary))
	target.Object = parse(t, strings.Replace(primary, `"generation"`, `"finalizers":["a/b"],"generation"`, 1))
	target.Object.Annotations = nil
	_, failure := w.EnsureFinalizer(t.Context(), target)
	if failure != nil {
		t.Fatal(failure)
	}
	_, failure = w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"spec":{"big":12345678901234567890}}`)})
	if failure != nil {
		t.Fatal(failure)
	}
	_, failure = w.WriteStatus(t.Context(), target, Status{Patch: []byte(`{"x":null,"y":"z"}`)})
	if failure != nil {
		t.Fatal(failure)
	}
	want := []request{
		{
			"PATCH", "/apis/test.thole.dev/v1/namespaces/default/widgets/w", "fieldManager=thole%2Fdemo%2Fmain", string(types.JSONPatchType), "thole/1.2.3 plugin/demo",
			`[{"op":"test","path":"/metadata/uid","value":"u1"},{"op":"test","path":"/metadata/finalizers","value":["a/b"]},{"op":"add","path":"/metadata/finalizers","value":["a/b","demo.thole.dev/main"]}]`,
		},
		{
			"PATCH", "/apis/test.thole.dev/v1/namespaces/default/widgets/w", "fieldManager=thole%2Fdemo%2Fmain", string(types.MergePatchType), "thole/1.2.3 plugin/demo",
			`{"spec":{"big":12345678901234567890},"metadata":{"uid":"u1"}}`,
		},
		{
			"PATCH", "/apis/test.thole.dev/v1/namespaces/default/widgets/w/status", "fieldManager=thole%2Fdemo%2Fmain", string(types.MergePatchType), "thole/1.2.3 plugin/demo",
			`{"metadata":{"resourceVersion":"5"},"status":{"y":"z"}}`,
		},
	}
	for i, got := range w.wire.take() {
		if i >= len(want) || got != want[i] {
			t.Errorf("request %d is\n%+v", i, got)
		}
	}
}

func TestWarningsOfTheServerAreLoggedOnce(t *testing.T) {
	w, target := newFake(t, func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Warning", `299 - "unknown field \"spec.x\""`)
		respond(200, "application/json", primary)(out, nil)
	})
	for i := range 3 {
		_, failure := w.PerformIntents(t.Context(), target, &abi.Result{Patch: fmt.Appendf(nil, `{"spec":{"a":%d}}`, i)})
		if failure != nil {
			t.Fatal(failure)
		}
	}
	w.logs.ExpectNext(t, hclog.Warn, "warning", `unknown field "spec.x"`)
	w.logs.ExpectNone(t)
}

func TestRequestToAHangingServerTimesOut(t *testing.T) {
	release := make(chan struct{})
	w, target := newFake(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}, func(c *Config) { c.Timeout = 20 * time.Millisecond })
	defer close(release)
	_, failure := w.WriteStatus(t.Context(), target, Status{Patch: []byte(`{"a":1}`)})
	if failure == nil || failure.Class != abi.ClassRetry || failure.Reason != "Timeout" {
		t.Errorf("got %+v", failure)
	}
}

func TestCanceledContextEndsTheWaitForTheRateLimit(t *testing.T) {
	w, target := newFake(t, respond(200, "application/json", primary), func(c *Config) { c.QPS, c.Burst = 0.001, 1 })
	if _, failure := w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"spec":{"a":1}}`)}); failure != nil {
		t.Fatal(failure)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, failure := w.PerformIntents(ctx, target, &abi.Result{Patch: []byte(`{"spec":{"a":2}}`)})
	if failure == nil || !errors.Is(failure, context.Canceled) {
		t.Errorf("got %+v", failure)
	}
}

// answering is an API server without a network that always sends this body.
type answering string

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(a))),
	}, nil
}

// Reads have a limit of their own, whose waits are not observed.
func TestWaitsOfWritesAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		c, err := newClient(&Config{
			REST: &rest.Config{
				Host:      "http://127.0.0.1:1",
				Transport: answering(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"1"}}`),
			},
			QPS: 1, Burst: 2,
			ObserveWait: func(d time.Duration) { waits = append(waits, d) },
		})
		if err != nil {
			t.Fatal(err)
		}
		configMaps := object.Resource{Kind: abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespaced: true}
		key := object.Key{Namespace: "ns", Name: "a"}
		for range 4 {
			if _, err := c.patch(t.Context(), configMaps, key, patch{patchType: types.MergePatchType, manager: "m", body: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.get(t.Context(), configMaps, key); err != nil {
				t.Fatal(err)
			}
		}
		if want := []time.Duration{0, 0, time.Second, time.Second}; !slices.Equal(waits, want) {
			t.Errorf("observed %v, want %v", waits, want)
		}
	})
}

func TestApplyOfAnUnservedKindIsRetried(t *testing.T) {
	w, target := newFake(t, respond(500, "", ""))
	target.Controller.Owns = append(target.Controller.Owns, abi.Kind{APIVersion: "new.dev/v1", Kind: "Thing"})
	_, failure := w.PerformIntents(t.Context(), target, apply(`{"apiVersion":"new.dev/v1","kind":"Thing","metadata":{"name":"x"}}`))
	if failure == nil || failure.Class != abi.ClassRetry || failure.Reason != "KindNotServed" || !strings.Contains(failure.Message, "new.dev/v1 Thing") {
		t.Errorf("got %+v", failure)
	}
	w.expectSent()
}

// unreachable is a store whose discovery does not reach the API server.
type unreachable struct{ *store }

func (unreachable) Resource(context.Context, abi.Kind) (object.Resource, error) {
	return object.Resource{}, fmt.Errorf("look up v1 ConfigMap: %w", &url.Error{Op: "Get", URL: "https://10.0.0.1:443/api/v1", Err: io.EOF})
}

func TestFailedDiscoveryIsNotReportedAsAnUnservedKind(t *testing.T) {
	w, target := newFake(t, func(http.ResponseWriter, *http.Request) {}, func(c *Config) { c.Store = unreachable{c.Store.(*store)} })
	_, failure := w.PerformIntents(t.Context(), target, apply(configObject, "v"))
	if failure == nil || failure.Reason != reasonUnavailable ||
		!strings.Contains(failure.Message, "10.0.0.1:443 cannot be reached") || !errors.Is(failure, io.EOF) {
		t.Errorf("got %+v", failure)
	}
}
