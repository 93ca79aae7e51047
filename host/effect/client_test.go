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
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestConfigIsValidated(t *testing.T) {
	good := Config{REST: &rest.Config{}, Planner: Planner{Plugin: "demo", Store: &store{}}, Recorder: &recorder{}}
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
	if err != nil || p.writes != nil || p.Timeout != 30*time.Second {
		t.Errorf("got %+v %v", p, err)
	}
}

func TestLongFieldManagersAreShortenedAndDistinct(t *testing.T) {
	p := &Performer{Config: Config{Planner: Planner{Plugin: strings.Repeat("p", 63)}}}
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

// The worker must not wait: what exceeds the limit is sent later, at a time that is
// reserved for it. Another run of the object does not get the place earlier.
func TestWritesBeyondTheLimitArePostponed(t *testing.T) {
	var waits []time.Duration
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w, target := newFake(t, respond(200, "application/json", primary), func(c *Config) {
		c.QPS, c.Burst = 0.5, 2
		c.Now = func() time.Time { return now }
		c.ObserveWait = func(d time.Duration) { waits = append(waits, d) }
	})
	var later []time.Duration
	for n, passed := range []time.Duration{0, 0, 0, 0, time.Second, time.Second, 0} {
		now = now.Add(passed)
		_, failure := w.PerformIntents(t.Context(), target, &abi.Result{Patch: fmt.Appendf(nil, `{"spec":{"a":%d}}`, n)})
		if failure == nil {
			later = append(later, 0)
			continue
		}
		later = append(later, failure.Later)
		if failure.Uncertain || failure.Reason != "WriteLimit" {
			t.Errorf("got %+v", failure)
		}
	}
	const second = time.Second
	if want := []time.Duration{0, 0, 2 * second, 2 * second, second, 0, 2 * second}; !slices.Equal(later, want) {
		t.Errorf("postponed by %v, want %v", later, want)
	}
	if want := []time.Duration{0, 0, 2 * second, 2 * second}; !slices.Equal(waits, want) {
		t.Errorf("observed %v, want %v", waits, want)
	}
	if sent := w.wire.take(); len(sent) != 3 {
		t.Errorf("%d requests were sent", len(sent))
	}
}

func TestRepliesThatPostponeARequest(t *testing.T) {
	for _, c := range []struct {
		name, retryAfter, body string
		code                   int
		later                  time.Duration
		uncertain              bool
	}{
		{"429 with Retry-After", "3", "slow down", 429, 3 * time.Second, false},
		{"429 without", "", "slow down", 429, time.Second, false},
		{"429 with a Status", "", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"details":{"retryAfterSeconds":7}}`, 429, 7 * time.Second, false},
		{"429 for a year", "31536000", "slow down", 429, 15 * time.Minute, false},
		{"503 with Retry-After", "3", "overloaded", 503, 3 * time.Second, true},
		{"503 without", "", "overloaded", 503, 0, true},
		{"500", "", "broken", 500, 0, true},
		{"half a reply", "", primary[:20], 200, 0, true},
		{"403", "", "no", 403, 0, false},
		{"422", "", "no", 422, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, target := newFake(t, func(out http.ResponseWriter, r *http.Request) {
				if c.retryAfter != "" {
					out.Header().Set("Retry-After", c.retryAfter)
				}
				if r.Method == http.MethodGet { // to find out why the patch was refused
					respond(200, "application/json", primary)(out, nil)
					return
				}
				respond(c.code, "application/json", c.body)(out, nil)
			})
			_, failure := w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"spec":{"a":1}}`)})
			if failure == nil || failure.Later != c.later || failure.Uncertain != c.uncertain {
				t.Errorf("got %+v, want later %s, uncertain %v", failure, c.later, c.uncertain)
			}
			if n := len(w.wire.take()); c.later > 0 && n != 1 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
}

func TestALostReplyIsUncertain(t *testing.T) {
	w, target := newFake(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, failure := w.PerformIntents(t.Context(), target, &abi.Result{Patch: []byte(`{"spec":{"a":1}}`)})
	if failure == nil || !failure.Uncertain || failure.Later != 0 {
		t.Errorf("got %+v", failure)
	}
}

func TestApplyOfAnUnservedKindIsRetried(t *testing.T) {
	w, target := newFake(t, respond(500, "", ""))
	target.Controller.Owns = append(target.Controller.Owns, abi.Kind{APIVersion: "new.dev/v1", Kind: "Thing"}.All())
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
