package traces

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const exportTimeout = 10 * time.Second

// spanExporter posts spans in the JSON encoding of OTLP
// (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding), and logs that the collector has
// begun, or ceased, to fail. The exporter of OpenTelemetry's Go library links gRPC, whether or not it
// is used: it makes the program larger by half, and each process by 13 MiB.
type spanExporter struct {
	endpoint string
	client   *http.Client
	logger   hclog.Logger
	failing  atomic.Bool
}

// ExportSpans implements [sdktrace.SpanExporter]. The library would print an error.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.report(e.post(ctx, spans))
	return nil
}

func (e *spanExporter) report(err error) {
	switch failed := err != nil; {
	case failed && !e.failing.Swap(true):
		e.logger.Warn("traces are lost: the collector does not take them", "error", err)
	case !failed && e.failing.Swap(false):
		e.logger.Info("traces are sent again")
	}
}

// Shutdown implements [sdktrace.SpanExporter].
func (e *spanExporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

func (e *spanExporter) post(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	body, err := json.Marshal(exportOf(spans))
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // for the next request
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", e.endpoint, answer.Status)
	}
	return nil
}

// The messages of OTLP, as far as the host has them.
type (
	otlpExport struct {
		ResourceSpans []otlpResourceSpans `json:"resourceSpans"`
	}
	otlpResourceSpans struct {
		Resource   otlpResource     `json:"resource"`
		ScopeSpans []otlpScopeSpans `json:"scopeSpans"`
	}
	otlpResource struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpScopeSpans struct {
		Scope otlpScope  `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpScope struct {
		Name string `json:"name"`
	}
	otlpSpan struct {
		TraceID      string          `json:"traceId"`
		SpanID       string          `json:"spanId"`
		ParentSpanID string          `json:"parentSpanId,omitempty"`
		Name         string          `json:"name"`
		Kind         trace.SpanKind  `json:"kind"`
		Start        string          `json:"startTimeUnixNano"`
		End          string          `json:"endTimeUnixNano"`
		Attributes   []otlpAttribute `json:"attributes,omitempty"`
		Status       otlpStatus      `json:"status"`
	}
	otlpStatus struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code,omitempty"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String string `json:"stringValue,omitempty"`
		Int    string `json:"intValue,omitempty"`
	}
)

// exportOf returns the message for spans of one provider.
func exportOf(spans []sdktrace.ReadOnlySpan) otlpExport {
	of := otlpResourceSpans{}
	scopes := map[string]int{}
	for _, s := range spans {
		of.Resource.Attributes = attributesOf(s.Resource().Attributes())
		scope := s.InstrumentationScope().Name
		if _, ok := scopes[scope]; !ok {
			scopes[scope] = len(of.ScopeSpans)
			of.ScopeSpans = append(of.ScopeSpans, otlpScopeSpans{Scope: otlpScope{scope}})
		}
		in := &of.ScopeSpans[scopes[scope]]
		in.Spans = append(in.Spans, spanOf(s))
	}
	return otlpExport{[]otlpResourceSpans{of}}
}

func spanOf(s sdktrace.ReadOnlySpan) otlpSpan {
	id := s.SpanContext()
	out := otlpSpan{
		TraceID: id.TraceID().String(), SpanID: id.SpanID().String(), Name: s.Name(), Kind: s.SpanKind(),
		Start: strconv.FormatInt(s.StartTime().UnixNano(), 10), End: strconv.FormatInt(s.EndTime().UnixNano(), 10),
		Attributes: attributesOf(s.Attributes()),
	}
	if s.Parent().HasSpanID() {
		out.ParentSpanID = s.Parent().SpanID().String()
	}
	if s.Status().Code == codes.Error {
		out.Status = otlpStatus{Message: s.Status().Description, Code: 2} // STATUS_CODE_ERROR
	}
	return out
}

func attributesOf(all []attribute.KeyValue) []otlpAttribute {
	out := make([]otlpAttribute, len(all))
	for i, a := range all {
		out[i].Key = string(a.Key)
		if a.Value.Type() == attribute.INT64 {
			out[i].Value.Int = strconv.FormatInt(a.Value.AsInt64(), 10)
		} else {
			out[i].Value.String = a.Value.String()
		}
	}
	return out
}
