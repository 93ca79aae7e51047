package traces

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/outcome"
)

// tracer makes spans of events, and sends them to a collector, in batches. If it does not take them they are
// lost: nothing waits for it.
type tracer struct {
	provider       *sdktrace.TracerProvider
	runs, requests trace.Tracer
	salt           [16]byte // of the ids of traces: those of runs are distinct in one process alone
	logger         hclog.Logger
}

// newTracer returns a tracer that must be stopped.
func newTracer(s *Settings, version string, logger hclog.Logger) *tracer {
	return tracerOf(logger,
		sdktrace.WithBatcher(&spanExporter{endpoint: s.Endpoint, client: &http.Client{Timeout: exportTimeout}, logger: logger}),
		sdktrace.WithSampler(sdktrace.TraceIDRatioBased(float64(s.SamplingRatePerMillion)/million)),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "thole"), attribute.String("service.version", version))),
	)
}

func tracerOf(logger hclog.Logger, options ...sdktrace.TracerProviderOption) *tracer {
	t := &tracer{provider: sdktrace.NewTracerProvider(append(options, sdktrace.WithIDGenerator(ids{}))...), logger: logger}
	t.runs, t.requests = t.provider.Tracer("github.com/thole-dev/thole/host"), t.provider.Tracer("github.com/thole-dev/thole/host/with/http/egress")
	binary.NativeEndian.PutUint64(t.salt[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(t.salt[8:], rand.Uint64())
	return t
}

// stopTimeout is how long the end of the host waits for the collector.
const stopTimeout = 3 * time.Second

// stop sends what is left.
func (t *tracer) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.logger.Warn("the last traces are lost", "error", err)
	}
}

// observe makes a span of an event. The library drops those that it has no room for.
func (t *tracer) observe(event events.Event) {
	switch e := event.(type) {
	case events.RunEnded:
		span := t.beginRun("reconcile", e.Run, e.Since, e.Resumed)
		span.SetAttributes(attribute.String("thole.result", e.Result), attribute.Int("thole.attempt", e.Attempt), attribute.Int("thole.writes", e.Writes))
		failed(span, e.Failure)
		end(span, e.Since, e.Duration)
	case events.RunPostponed:
		span := t.beginRun("reconcile", e.Run, e.Since, e.Resumed)
		span.SetAttributes(attribute.String("thole.result", string(outcome.MetricRequeueAfter)))
		end(span, e.Since, e.Duration)
	case events.TurnEnded:
		span := t.beginRun(e.What, e.Run, e.Since, false)
		failed(span, e.Failure)
		end(span, e.Since, e.Duration)
	case events.RequestEnded:
		t.request(e)
	}
}

// failed states in a span why a run or a turn has failed, if it has.
func failed(span trace.Span, f events.Failure) {
	if f.Class != abi.ClassNone {
		span.SetAttributes(attribute.String("error.type", string(f.Class)))
		span.SetStatus(codes.Error, f.Reason)
	}
}

// beginRun begins the span of a run: the first one of its trace, and below that one if the run was resumed.
func (t *tracer) beginRun(name string, run events.Run, since time.Time, resumed bool) trace.Span {
	_, span := t.runs.Start(t.traceOf(run, resumed), name, trace.WithTimestamp(since), trace.WithAttributes(
		attribute.String("thole.plugin", run.Plugin),
		attribute.String("thole.controller", run.Controller),
		attribute.String("thole.object", run.Object),
		attribute.Int("thole.revision", run.Revision),
		attribute.String("thole.reconcile_id", run.ID),
	))
	return span
}

// request makes the span of an HTTP request, below that of its run.
func (t *tracer) request(e events.RequestEnded) {
	_, span := t.requests.Start(t.traceOf(e.Run, true), "HTTP", trace.WithTimestamp(e.Since), trace.WithSpanKind(trace.SpanKindClient))
	if e.Status == 0 {
		span.SetStatus(codes.Error, e.Code)
		span.SetAttributes(attribute.String("error.type", e.Code))
	} else {
		span.SetAttributes(attribute.Int("http.response.status_code", e.Status), attribute.Int("thole.redirects", e.Redirects))
	}
	if e.Method != "" {
		span.SetAttributes(attribute.String("http.request.method", e.Method), attribute.String("server.address", e.Host))
	}
	end(span, e.Since, e.Duration)
}

func end(span trace.Span, since time.Time, took time.Duration) {
	span.End(trace.WithTimestamp(since.Add(took)))
}

// traceOf returns a context in which a span that begins is of the trace of a run: the first one, or one below
// it.
func (t *tracer) traceOf(run events.Run, below bool) context.Context {
	sum := sha256.Sum256(fmt.Appendf(t.salt[:], "%s/%s %s %s", run.Plugin, run.Controller, run.Object, run.ID))
	id := trace.SpanContextConfig{TraceID: trace.TraceID(sum[:16])}
	if below {
		id.SpanID = firstSpan(id.TraceID)
	}
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(id))
}

// firstSpan returns the id of the first span of a trace.
func firstSpan(of trace.TraceID) trace.SpanID { return trace.SpanID(of[8:]) }

// ids implements [sdktrace.IDGenerator] for spans in the contexts of [tracer.traceOf].
type ids struct{}

// NewSpanID implements [sdktrace.IDGenerator].
func (ids) NewSpanID(ctx context.Context, of trace.TraceID) trace.SpanID {
	if !trace.SpanContextFromContext(ctx).HasSpanID() {
		return firstSpan(of)
	}
	var id trace.SpanID
	binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	return id
}

// NewIDs implements [sdktrace.IDGenerator]. It is called for no span: all are begun in a trace.
func (ids) NewIDs(context.Context) (of trace.TraceID, first trace.SpanID) {
	binary.NativeEndian.PutUint64(of[8:], rand.Uint64())
	return of, firstSpan(of)
}
