package dispatch

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
)

// traced makes the runs of the fixture begin spans, and returns these and what became of the runs.
func traced(f *fixture) (spans *tracetest.SpanRecorder, runs *[]string) {
	spans, runs = tracetest.NewSpanRecorder(), &[]string{}
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	f.c.Trace = func(ctx context.Context, run events.Run, since time.Time) (context.Context, func(events.RunEnded)) {
		ctx, span := tracer.Start(ctx, "run", trace.WithTimestamp(since))
		return ctx, func(e events.RunEnded) {
			*runs = append(*runs, fmt.Sprintf("%s/%s %s %d: %s %s", run.Plugin, run.Controller, run.Object, run.Revision, e.Result, e.Failure.Class))
			span.End()
		}
	}
	return spans, runs
}

// A run whose effects are postponed is two spans.
func TestPostponedRunIsTraced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		spans, runs := traced(f)
		f.put(aWidget)
		f.reconcile, f.fail["apply"] = appliesGadget, busy("apply", 3*time.Second)
		f.run()
		delete(f.fail, "apply")
		time.Sleep(3 * time.Second) // fake time
		f.run(abi.ReasonRetry)
		if got, want := fmt.Sprintf("%q", *runs), `["p/c ns/w 1: requeue_after " "p/c ns/w 1: success "]`; got != want || len(spans.Ended()) != 2 {
			t.Errorf("%d spans, runs %s, want %s", len(spans.Ended()), got, want)
		}
	})
}

func TestRunsAndTheirRequestsAreTraced(t *testing.T) {
	o := newOutside(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	spans, runs := traced(o.fixture)
	o.put(aWidget)
	o.sends(&abi.HTTPCall{Method: "PUT", URL: o.url + "/a"})
	o.run()
	o.sends(&abi.HTTPCall{Method: "DELETE", URL: o.url + "/a"}) // is denied
	o.run()
	if got, want := fmt.Sprintf("%q", *runs), `["p/c ns/w 1: success " "p/c ns/w 1: error retry"]`; got != want {
		t.Errorf("runs %s, want %s", got, want)
	}
	all := spans.Ended()
	if len(all) != 4 {
		t.Fatalf("%d spans", len(all))
	}
	for i := range 2 {
		request, run := all[2*i], all[2*i+1]
		if request.Parent().SpanID() != run.SpanContext().SpanID() || request.SpanKind() != trace.SpanKindClient {
			t.Errorf("the request %d is no child of its run", i)
		}
	}
	if all[1].SpanContext().TraceID() == all[3].SpanContext().TraceID() {
		t.Error("two runs are one trace")
	}
}
