package traces

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/runner"
)

// collector keeps what it was sent last, and answers by a status.
type collector struct {
	mu          sync.Mutex
	contentType string
	body        []byte
	status      int
	requests    int
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.contentType, c.requests = r.Header.Get("Content-Type"), c.requests+1
	c.body, _ = io.ReadAll(r.Body)
	w.WriteHeader(c.status)
}

// start returns what the capability does in a host with these settings.
func start(s *Settings, log io.Writer) runner.Capability {
	return Capability().New(runner.Environment{Section: s, Version: "1.2", Logger: hclog.New(&hclog.LoggerOptions{Output: log})})
}

var (
	aRun  = events.Run{Plugin: "p", Controller: "c", Object: "ns/w", Revision: 2, ID: "abc"}
	since = time.Unix(7, 5)
)

func TestSpansAreSentByOTLP(t *testing.T) {
	c := &collector{status: http.StatusOK}
	server := httptest.NewServer(c)
	defer server.Close()
	goroutines := goleak.IgnoreCurrent()
	traces := start(&Settings{server.URL, million}, io.Discard)
	traces.Observe(events.RequestEnded{Run: aRun, Since: since, Duration: 1, Method: "GET", Host: "a:80", Code: "timeout"})
	traces.Observe(events.RunEnded{Run: aRun, Since: since, Duration: 2, Result: "success", Writes: 3})
	traces.Stop()
	server.CloseClientConnections()
	if err := await.Success(func() error { return goleak.Find(goroutines) }); err != nil {
		t.Error(err)
	}
	var sent struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct{ TraceID, SpanID string }
			}
		}
	}
	if err := json.Unmarshal(c.body, &sent); err != nil {
		t.Fatal(err)
	}
	request, run := sent.ResourceSpans[0].ScopeSpans[0].Spans[0], sent.ResourceSpans[0].ScopeSpans[1].Spans[0]
	if len(run.TraceID) != 32 || len(run.SpanID) != 16 || len(request.SpanID) != 16 || request.SpanID == run.SpanID {
		t.Fatalf("the ids are %+v and %+v", run, request)
	}
	// As in the example of the specification: ids in hex, 64 bits as text, enums as numbers.
	want := strings.NewReplacer("TRACE", run.TraceID, "PARENT", run.SpanID, "CHILD", request.SpanID).Replace(`{
		"resourceSpans": [{
			"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "thole"}}, {"key": "service.version", "value": {"stringValue": "1.2"}}]},
			"scopeSpans": [{"scope": {"name": "github.com/thole-dev/thole/host/with/http/egress"}, "spans": [
				{"traceId": "TRACE", "spanId": "CHILD", "parentSpanId": "PARENT", "name": "HTTP", "kind": 3,
					"startTimeUnixNano": "7000000005", "endTimeUnixNano": "7000000006",
					"attributes": [{"key": "error.type", "value": {"stringValue": "timeout"}},
						{"key": "http.request.method", "value": {"stringValue": "GET"}}, {"key": "server.address", "value": {"stringValue": "a:80"}}],
					"status": {"code": 2, "message": "timeout"}}
			]}, {"scope": {"name": "github.com/thole-dev/thole/host"}, "spans": [
				{"traceId": "TRACE", "spanId": "PARENT", "name": "reconcile", "kind": 1,
					"startTimeUnixNano": "7000000005", "endTimeUnixNano": "7000000007",
					"attributes": [{"key": "thole.plugin", "value": {"stringValue": "p"}}, {"key": "thole.controller", "value": {"stringValue": "c"}},
						{"key": "thole.object", "value": {"stringValue": "ns/w"}}, {"key": "thole.revision", "value": {"intValue": "2"}},
						{"key": "thole.reconcile_id", "value": {"stringValue": "abc"}}, {"key": "thole.result", "value": {"stringValue": "success"}},
						{"key": "thole.attempt", "value": {"intValue": "0"}}, {"key": "thole.writes", "value": {"intValue": "3"}}],
					"status": {}}
			]}]
		}]
	}`)
	if c.contentType != "application/json" || !equalJSON(t, c.body, want) {
		t.Errorf("sent as %s:\n%s\nwant\n%s", c.contentType, c.body, want)
	}
}

// recorded returns the spans of events.
func recorded(all ...events.Event) []sdktrace.ReadOnlySpan {
	spans := tracetest.NewSpanRecorder()
	t := tracerOf(hclog.NewNullLogger(), sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithSpanProcessor(spans))
	for _, e := range all {
		t.observe(e)
	}
	return spans.Ended()
}

func TestSpanStatesWhatBecameOfTheRun(t *testing.T) {
	for _, test := range []struct {
		event events.Event
		want  string
	}{
		{events.RunEnded{Run: aRun, Since: since, Duration: 9, Result: "success", Writes: 3}, "reconcile thole.result=success thole.attempt=0 thole.writes=3 Unset "},
		{
			events.RunEnded{Run: aRun, Since: since, Duration: 9, Result: "error", Attempt: 1, Failure: events.Failure{Class: abi.ClassPanic, Reason: "Panicked", Message: "not in the span"}},
			"reconcile thole.result=error thole.attempt=1 thole.writes=0 error.type=panic Error Panicked",
		},
		{events.RunPostponed{Run: aRun, Since: since, Duration: 9}, "reconcile thole.result=requeue_after Unset "},
		{events.TurnEnded{Run: aRun, Since: since, Duration: 9, What: "scan"}, "scan Unset "},
		{events.TurnEnded{Run: aRun, Since: since, Duration: 9, What: "scan", Failure: events.Failure{Class: abi.ClassRetry, Reason: "NoSite"}}, "scan error.type=retry Error NoSite"},
	} {
		s := recorded(test.event)[0]
		got := s.Name()
		identity := []string{}
		for _, a := range s.Attributes() {
			text := fmt.Sprintf("%s=%s", a.Key, a.Value.String())
			if len(identity) < 5 {
				identity = append(identity, text)
			} else {
				got += " " + text
			}
		}
		got += fmt.Sprintf(" %s %s", s.Status().Code, s.Status().Description)
		if got != test.want || !s.StartTime().Equal(since) || !s.EndTime().Equal(since.Add(9)) || s.Parent().HasSpanID() {
			t.Errorf("the span from %s to %s is\n%s\nwant\n%s", s.StartTime(), s.EndTime(), got, test.want)
		}
		if got := strings.Join(identity, " "); got != "thole.plugin=p thole.controller=c thole.object=ns/w thole.revision=2 thole.reconcile_id=abc" {
			t.Errorf("the span is of %s", got)
		}
	}
}

func TestSpanOfARequest(t *testing.T) {
	for want, e := range map[string]events.RequestEnded{
		"http.response.status_code=410 thole.redirects=1 http.request.method=GET server.address=a:80 Unset ": {Method: "GET", Host: "a:80", Status: 410, Redirects: 1, Code: "410"},
		"error.type=invalid Error invalid": {Code: "invalid"},
	} {
		s := recorded(e)[0]
		got := ""
		for _, a := range s.Attributes() {
			got += fmt.Sprintf("%s=%s ", a.Key, a.Value.String())
		}
		if got += fmt.Sprintf("%s %s", s.Status().Code, s.Status().Description); got != want || s.Name() != "HTTP" || s.SpanKind() != trace.SpanKindClient {
			t.Errorf("the span is %s %s, want %s", s.Name(), got, want)
		}
	}
}

// What one run leads to is one trace, below its first span.
func TestRunIsATrace(t *testing.T) {
	other := aRun
	other.ID = "abd"
	all := recorded(
		events.RequestEnded{Run: aRun}, events.RequestEnded{Run: aRun}, events.RunPostponed{Run: aRun},
		events.RunPostponed{Run: aRun, Resumed: true}, events.RunEnded{Run: aRun, Resumed: true},
		events.RequestEnded{Run: other}, events.RunEnded{Run: other},
	)
	seen := map[trace.SpanID]bool{}
	for i, s := range all {
		id, first := s.SpanContext(), all[2].SpanContext()
		if i >= 5 {
			first = all[6].SpanContext()
		}
		if seen[id.SpanID()] || id.TraceID() != first.TraceID() || id.SpanID() != first.SpanID() && s.Parent().SpanID() != first.SpanID() {
			t.Errorf("the span number %d is %v below %v", i, id, s.Parent())
		}
		seen[id.SpanID()] = true
	}
	if all[2].SpanContext().TraceID() == all[6].SpanContext().TraceID() {
		t.Error("two runs are one trace")
	}
	if recorded(events.RunEnded{Run: aRun})[0].SpanContext().TraceID() == all[2].SpanContext().TraceID() {
		t.Error("runs of two hosts are one trace")
	}
}

func equalJSON(t *testing.T, got []byte, want string) bool {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(a, b)
}

func TestCollectorThatFailsIsLoggedOnce(t *testing.T) {
	c := &collector{status: http.StatusServiceUnavailable}
	server := httptest.NewServer(c)
	defer server.Close()
	var log strings.Builder
	traces := newTracer(&Settings{server.URL, million}, "1.2", hclog.New(&hclog.LoggerOptions{Output: &log}))
	send := func(status int) {
		c.status = status
		traces.observe(events.RunEnded{Run: aRun})
		if err := traces.provider.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		send(http.StatusServiceUnavailable)
	}
	send(http.StatusOK)
	send(http.StatusOK)
	traces.stop()
	if strings.Count(log.String(), "traces are lost") != 1 || strings.Count(log.String(), "traces are sent again") != 1 || c.requests != 5 {
		t.Errorf("%d requests, logged:\n%s", c.requests, &log)
	}
	if !strings.Contains(log.String(), "503") {
		t.Errorf("the reason is not in %s", &log)
	}
}

func TestNothingIsTracedWithoutACollector(t *testing.T) {
	if traces := start(Capability().Config().(*Settings), io.Discard); traces.Observe != nil || traces.Stop != nil {
		t.Error("there are traces")
	}
}

// The requests of a run are traced if the run is.
func TestASampleIsTraced(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	traces := newTracer(&Settings{"http://127.0.0.1:1", million / 2}, "1.2", hclog.NewNullLogger())
	traces.provider.RegisterSpanProcessor(spans)
	for i := range 1000 {
		run := aRun
		run.ID = fmt.Sprint(i)
		traces.observe(events.RequestEnded{Run: run})
		traces.observe(events.RunEnded{Run: run})
	}
	sampled := map[trace.TraceID]int{}
	for _, s := range spans.Ended() {
		sampled[s.SpanContext().TraceID()]++
	}
	if len(sampled) < 300 || len(sampled) > 700 { // 12 standard deviations
		t.Errorf("%d of 1000", len(sampled))
	}
	for _, n := range sampled {
		if n != 2 {
			t.Errorf("a trace has %d spans", n)
		}
	}
	traces.stop()
}

func TestSettingsAreChecked(t *testing.T) {
	sections := []config.Section{{Name: Capability().Name, Config: Capability().Config}}
	file := filepath.Join(t.TempDir(), "config.yaml")
	for text, want := range map[string]string{
		"tracing: {endpoint: 'https://collector:4318/v1/traces', samplingRatePerMillion: 1}": "",
		"tracing: {endpoint: 'localhost:4317'}":                                              "tracing.endpoint: Invalid value",
		"tracing: {endpoint: 'grpc://localhost:4317'}":                                       "tracing.endpoint: Invalid value",
		"tracing: {endpoint: 'http://:4318/v1/traces'}":                                      "tracing.endpoint: Invalid value",
		"tracing: {endpoint: 'http://a:b@host/v1/traces'}":                                   "tracing.endpoint: Invalid value",
		`tracing: {endpoint: "http://host/\x7f"}`:                                            "tracing.endpoint: Invalid value",
		"tracing: {samplingRatePerMillion: 1000001}":                                         "tracing.samplingRatePerMillion: Invalid value: 1000001: must be between 1 and 1000000",
		"tracing: {samplingRatePerMillion: 0}":                                               "tracing.samplingRatePerMillion: Invalid value: 0: must be between 1 and 1000000",
		"tracing: {sampler: x}":                                                              `unknown field "tracing.sampler"`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Read(file, sections...)
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if c := (config.Config{Sections: sections}).WithDefaults(); c.Values["tracing"].(*Settings).SamplingRatePerMillion != million {
		t.Errorf("by default %+v of a million runs are traced", c.Values["tracing"])
	}
}
