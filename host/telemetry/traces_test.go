package telemetry

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
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

func TestSpansAreSentByOTLP(t *testing.T) {
	c := &collector{status: http.StatusOK}
	server := httptest.NewServer(c)
	defer server.Close()
	traces := NewTraces(server.URL, 1_000_000, "1.2", hclog.NewNullLogger())
	at := time.Unix(1, 5)
	ctx, parent := tracerOf(traces).Start(t.Context(), "parent", trace.WithTimestamp(at), trace.WithAttributes(attribute.String("a", "b"), attribute.Int("n", 3)))
	_, child := tracerOf(traces).Start(ctx, "child", trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindClient))
	child.SetStatus(codes.Error, "why")
	child.End(trace.WithTimestamp(at.Add(1)))
	parent.End(trace.WithTimestamp(at.Add(2)))
	if err := traces.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// As in the example of the specification: ids in hex, 64 bits as text, enums as numbers.
	want := strings.NewReplacer("TRACE", parent.SpanContext().TraceID().String(), "PARENT", parent.SpanContext().SpanID().String(), "CHILD", child.SpanContext().SpanID().String()).Replace(`{
		"resourceSpans": [{
			"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "thole"}}, {"key": "service.version", "value": {"stringValue": "1.2"}}]},
			"scopeSpans": [{"scope": {"name": "github.com/thole-dev/thole/host"}, "spans": [
				{"traceId": "TRACE", "spanId": "CHILD", "parentSpanId": "PARENT", "name": "child", "kind": 3,
					"startTimeUnixNano": "1000000005", "endTimeUnixNano": "1000000006", "status": {"code": 2, "message": "why"}},
				{"traceId": "TRACE", "spanId": "PARENT", "name": "parent", "kind": 1,
					"startTimeUnixNano": "1000000005", "endTimeUnixNano": "1000000007",
					"attributes": [{"key": "a", "value": {"stringValue": "b"}}, {"key": "n", "value": {"intValue": "3"}}], "status": {}}
			]}]
		}]
	}`)
	if c.contentType != "application/json" || !equalJSON(t, c.body, want) {
		t.Errorf("sent as %s:\n%s\nwant\n%s", c.contentType, c.body, want)
	}
}

func tracerOf(traces *Traces) trace.Tracer {
	return traces.provider.Tracer("github.com/thole-dev/thole/host")
}

func TestSpanStatesWhatBecameOfTheRun(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	begin := (&Traces{sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))}).Begin()
	run := events.Run{Plugin: "p", Controller: "c", Object: "ns/w", Revision: 2, ID: "abc"}
	for _, test := range []struct {
		ended events.RunEnded
		want  string
	}{
		{events.RunEnded{Result: "success", Writes: 3}, "reconcile thole.result=success thole.attempt=0 thole.writes=3 Unset "},
		{
			events.RunEnded{Result: "error", Attempt: 1, Failure: events.Failure{Class: abi.ClassPanic, Reason: "Panicked", Message: "not in the span"}},
			"reconcile thole.result=error thole.attempt=1 thole.writes=0 error.type=panic Error Panicked",
		},
		{events.RunEnded{}, "daemon Unset "},
	} {
		since := time.Unix(7, 0)
		ctx, end := begin(t.Context(), run, since)
		if !trace.SpanFromContext(ctx).SpanContext().IsValid() {
			t.Error("the context has no span")
		}
		end(test.ended)
		s := spans.Ended()[len(spans.Ended())-1]
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
		if got != test.want || !s.StartTime().Equal(since) {
			t.Errorf("the span since %s is\n%s\nwant\n%s", s.StartTime(), got, test.want)
		}
		if got := strings.Join(identity, " "); got != "thole.plugin=p thole.controller=c thole.object=ns/w thole.revision=2 thole.reconcile_id=abc" {
			t.Errorf("the span is of %s", got)
		}
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
	traces := NewTraces(server.URL, 1_000_000, "1.2", hclog.New(&hclog.LoggerOptions{Output: &log}))
	send := func(status int) {
		c.status = status
		_, span := tracerOf(traces).Start(t.Context(), "s")
		span.End()
		if err := traces.provider.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		send(http.StatusServiceUnavailable)
	}
	send(http.StatusOK)
	send(http.StatusOK)
	if err := traces.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Count(log.String(), "traces are lost") != 1 || strings.Count(log.String(), "traces are sent again") != 1 || c.requests != 5 {
		t.Errorf("%d requests, logged:\n%s", c.requests, &log)
	}
	if !strings.Contains(log.String(), "503") {
		t.Errorf("the reason is not in %s", &log)
	}
}

func TestNothingIsTracedWithoutACollector(t *testing.T) {
	var traces *Traces
	if traces.Begin() != nil || traces.Stop(t.Context()) != nil {
		t.Error("there are traces")
	}
}

func TestASampleIsTraced(t *testing.T) {
	traces := NewTraces("http://127.0.0.1:1", 500_000, "1.2", hclog.NewNullLogger())
	sampled := 0
	for range 1000 {
		if _, span := tracerOf(traces).Start(t.Context(), "s"); span.SpanContext().IsSampled() {
			sampled++
		}
	}
	if sampled < 300 || sampled > 700 { // 12 standard deviations
		t.Errorf("%d of 1000", sampled)
	}
	if err := traces.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
