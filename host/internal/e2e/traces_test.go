package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// span is what a test needs of a span in the JSON encoding of OTLP.
type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int // 3: of a client
	StartTimeUnixNano, EndTimeUnixNano  string
	Status                              struct{ Code int } // 2: an error
	Attributes                          []struct {
		Key   string
		Value map[string]any
	}
}

// attribute returns a text or a number, "" if there is none.
func (s span) attribute(key string) string {
	for _, a := range s.Attributes {
		for _, value := range a.Value {
			if a.Key == key {
				return fmt.Sprint(value)
			}
		}
	}
	return ""
}

// traceCollector takes spans by OTLP over HTTP.
type traceCollector struct {
	t *testing.T

	mu    sync.Mutex
	spans []span
}

// ServeHTTP implements http.Handler.
func (c *traceCollector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var sent struct {
		ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
	}
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		c.t.Errorf("%s %s of %s: %v", r.Method, r.URL, r.Header.Get("Content-Type"), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range sent.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// of returns the spans that are of a run, or below one.
func (c *traceCollector) of(run string) (all []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.spans, func(s span) bool { return s.attribute("thole.reconcile_id") == run })
	if i < 0 {
		return nil
	}
	all = append(all, c.spans[i])
	for _, s := range c.spans {
		if s.ParentSpanID == all[0].SpanID && s.TraceID == all[0].TraceID {
			all = append(all, s)
		}
	}
	return all
}

// Each run is a span, which the log names too, and each of its HTTP requests one below it.
func TestRunsAreTraced(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d, a, c := namespace(t), newDirectory(t), newAsking(t), &traceCollector{t: t}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	policy, config := a.config("asking")
	d.installPolicy("asking", policy)
	d.install("asking", askingPlugin("asking", a.server.URL, abi.Controller{Name: "main", For: stampKind.All()}))
	p := start(t, d, ns, config+fmt.Sprintf("tracing: {endpoint: %s/v1/traces}\n", server.URL))
	p.awaitRunning("asking", 1)
	createStamp(t, ns, "a", "1")
	var runs tholetest.Lines
	ended := func(n int) {
		t.Helper()
		await.Until(t, fmt.Sprintf("%d runs have ended", n), func() bool {
			runs = p.Log.Events("RunEnded", "object", ns+"/a")
			return len(runs) == n
		})
	}
	ended(1)
	must(t, patchSpec(t.Context(), stamps, ns, "a", "text", "2"))
	ended(2)

	traces := map[string]bool{}
	for _, run := range runs {
		id := run.String("reconcileID")
		var spans []span
		await.Until(t, "the run and its request are traced", func() bool { spans = c.of(id); return len(spans) == 2 })
		of, request := spans[0], spans[1]
		traces[of.TraceID] = true
		if of.Name != "reconcile" || of.ParentSpanID != "" || of.Status.Code == 2 {
			t.Errorf("the span of a run that succeeded is %+v", of)
		}
		for key, want := range map[string]string{
			"thole.plugin": "asking", "thole.controller": "main", "thole.object": ns + "/a", "thole.result": "success",
		} {
			if got := of.attribute(key); got != want {
				t.Errorf("%s of the span is %q, want %q", key, got, want)
			}
		}
		if request.Kind != 3 || request.StartTimeUnixNano < of.StartTimeUnixNano || request.EndTimeUnixNano > of.EndTimeUnixNano {
			t.Errorf("the span of the request is %+v, and that of the run %+v", request, of)
		}
	}
	if len(traces) != 2 {
		t.Errorf("%d runs are %d traces", len(runs), len(traces))
	}
	p.stop()
	p.expectNoErrors()
}
