package openapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
)

// server is an API server that returns the documents in turn, the last one again and
// again.
type server struct {
	status    int
	documents [][]byte
	paths     []string
	hangs     bool
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.paths = append(s.paths, r.URL.Path)
	if s.hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	body := s.documents[min(len(s.paths), len(s.documents))-1]
	return &http.Response{
		StatusCode: s.status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, nil
}

func (s *server) schemas(t *testing.T) *Schemas {
	client, err := rest.UnversionedRESTClientFor(&rest.Config{
		Host: "http://localhost", Transport: s, QPS: -1,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return New(client)
}

func TestAFieldThatTheSchemaHasLaterIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		without := documentOf(`"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}`, "")
		s := &server{status: 200, documents: [][]byte{without, without, documentOf(widgetSchema, otherSchemas)}}
		if err := s.schemas(t).Check(t.Context(), widget, pathOf(t, "spec.nodeName")); err != nil || len(s.paths) != 3 {
			t.Errorf("got %v after %d requests", err, len(s.paths))
		}
		if s.paths[0] != "/openapi/v3/apis/example.dev/v1" {
			t.Errorf("requested %s", s.paths[0])
		}
	})
}

func TestAFieldThatTheSchemaNeverHasIsRefusedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := &server{status: 200, documents: [][]byte{documentOf(widgetSchema, otherSchemas)}}, time.Now()
		err := s.schemas(t).Check(t.Context(), widget, pathOf(t, "spec.nodename"))
		if _, refused := errors.AsType[*UnknownFieldError](err); !refused || time.Since(began) != settleFor {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

func TestASchemaThatCannotBeHadRefusesNothing(t *testing.T) {
	for name, s := range map[string]*server{
		"not found":     {status: 404, documents: [][]byte{[]byte("404 page not found")}},
		"forbidden":     {status: 403, documents: [][]byte{[]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)}},
		"broken":        {status: 500, documents: [][]byte{documentOf(widgetSchema, otherSchemas)}},
		"too large":     {status: 200, documents: [][]byte{documentOf(widgetSchema, `"s":{"description":"`+strings.Repeat("x", maxDocument)+`"}`)}},
		"no reply":      {hangs: true},
		"a web page":    {status: 200, documents: [][]byte{[]byte("<html></html>")}},
		"another group": {status: 200, documents: [][]byte{[]byte(`{"components":{"schemas":{"a":{"type":"object"}}}}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := s.schemas(t).Check(t.Context(), widget, pathOf(t, "spec.nodename"))
				if _, refused := errors.AsType[*UnknownFieldError](err); refused || err == nil || !strings.Contains(err.Error(), widget.String()) {
					t.Errorf("got %v", err)
				}
				if name == "too large" && !strings.HasSuffix(err.Error(), "more than 33554432 bytes") {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

func TestACheckEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, s := range map[string]*server{
			"while the server does not reply":     {hangs: true},
			"while the field is looked for again": {status: 200, documents: [][]byte{documentOf(widgetSchema, otherSchemas)}},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			began := time.Now()
			if err := s.schemas(t).Check(ctx, widget, pathOf(t, "spec.nodename")); err == nil || time.Since(began) != 500*time.Millisecond {
				t.Errorf("%s: %v after %s", name, err, time.Since(began))
			}
			cancel()
		}
	})
}

// Documents are had one at a time: an API that hangs would make all others wait.
func TestAnAPIThatDoesNotReplyIsNotAskedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{hangs: true, status: 200, documents: [][]byte{documentOf(widgetSchema, otherSchemas)}}
		schemas, began := s.schemas(t), time.Now()
		for range 5 {
			if err := schemas.Check(t.Context(), widget, pathOf(t, "spec.nodeName")); err == nil || !strings.Contains(err.Error(), "deadline") {
				t.Errorf("got %v", err)
			}
		}
		if took := time.Since(began); took > requestTimeout || len(s.paths) != 1 {
			t.Errorf("%s for %d requests", took, len(s.paths))
		}
		s.hangs = false
		other := abi.Kind{APIVersion: "other.dev/v1", Kind: "Widget"}
		if err := schemas.Check(t.Context(), other, pathOf(t, "spec.nodeName")); err != nil {
			t.Errorf("of another API: %v", err)
		}
		time.Sleep(askAgain) // fake time
		if err := schemas.Check(t.Context(), widget, pathOf(t, "spec.nodeName")); err != nil {
			t.Errorf("after a while: %v", err)
		}
	})
}

// Whoever gives up has learned nothing about the API.
func TestAnAPIIsAskedAgainAfterACheckThatWasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{hangs: true, status: 200, documents: [][]byte{documentOf(widgetSchema, otherSchemas)}}
		schemas := s.schemas(t)
		ctx, cancel := context.WithTimeout(t.Context(), requestTimeout/2)
		defer cancel()
		if err := schemas.Check(ctx, widget, pathOf(t, "spec.nodeName")); err == nil {
			t.Error("it does not hang")
		}
		s.hangs = false
		if err := schemas.Check(t.Context(), widget, pathOf(t, "spec.nodeName")); err != nil {
			t.Error(err)
		}
	})
}
