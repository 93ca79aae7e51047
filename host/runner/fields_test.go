package runner

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/internal/logtest"
)

// schemas is an API server that returns one document, or a status.
type schemas struct {
	status   int
	document string
	requests int
}

func (s *schemas) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests++
	return &http.Response{
		StatusCode: s.status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(s.document)), Request: r,
	}, nil
}

func TestIndexesOfFieldsThatTheKindDoesNotHaveAreRefused(t *testing.T) {
	const document = `{"components":{"schemas":{"w":{"type":"object","x-kubernetes-group-version-kind":[{"group":"example.dev","version":"v1","kind":"Widget"}],
		"properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}}}`
	kind := abi.Kind{APIVersion: "example.dev/v1", Kind: "Widget"}
	index := func(name, field string) abi.Index { return abi.Index{Name: name, Kind: kind, Field: field} }
	watch := []abi.Watch{{Followed: abi.Kind{APIVersion: "v1", Kind: "Node"}.All(), By: abi.WatchByField, Field: "spec.node"}}
	for name, c := range map[string]struct {
		server   schemas
		ended    bool // the context
		indexes  []abi.Index
		refused  string
		requests int
		logged   int
		watches  []abi.Watch
	}{
		"no indexes":               {schemas{200, document, 0}, false, nil, "", 0, 0, nil},
		"fields of the kind":       {schemas{200, document, 0}, false, []abi.Index{index("a", "spec.size"), index("b", "metadata.name")}, "", 1, 0, nil},
		"one that it has not":      {schemas{200, document, 0}, false, []abi.Index{index("a", "spec.size"), index("b", "spec.siz")}, `controller "second": index "b": field "spec.siz": in the schema of example.dev/v1 Widget "spec" has no field "siz", did you mean "size"?`, 6, 0, nil},
		"the first of two":         {schemas{200, document, 0}, false, []abi.Index{index("a", "spec"), index("b", "spec.size")}, `controller "second": index "a": field "spec": in the schema of example.dev/v1 Widget "spec" is an object: name one of its fields`, 6, 0, nil},
		"a field of primaries":     {schemas{200, document, 0}, false, []abi.Index{index("a", "spec.size")}, `controller "second": watches of v1 Node by field: field "spec.node": in the schema of example.dev/v1 Widget "spec" has no field "node"`, 6, 0, watch},
		"no schema":                {schemas{404, "", 0}, false, []abi.Index{index("a", "spec.siz")}, "", 1, 1, nil},
		"a schema that is broken":  {schemas{200, "<html>", 0}, false, []abi.Index{index("a", "spec.siz")}, "", 1, 1, nil},
		"a start that was stopped": {schemas{200, document, 0}, true, []abi.Index{index("a", "spec.siz")}, context.Canceled.Error(), 0, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects, err := cache.New(cache.Config{REST: &rest.Config{Host: "http://localhost", Transport: &c.server}})
				if err != nil {
					t.Fatal(err)
				}
				defer objects.Stop()
				log := logtest.New(hclog.Warn)
				r := New(Config{Cache: objects, Logger: log.Logger})
				rev := &Revision{Manifest: &abi.Manifest{Controllers: []abi.Controller{{Name: "first"}, {Name: "second", For: kind.All(), Indexes: c.indexes, Watches: c.watches}}}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if c.ended {
					cancel()
				}
				message := ""
				if err := (&start{Runner: r, rev: rev}).checkFields(ctx); err != nil {
					message = err.Error()
				}
				if message != c.refused || c.server.requests != c.requests {
					t.Errorf("got %q after %d requests, want %q after %d", message, c.server.requests, c.refused, c.requests)
				}
				if lines := log.All(); len(lines) != c.logged {
					t.Errorf("logged %v", lines)
				}
			})
		})
	}
}

func TestConditionsOfABuiltInKindThatHasNoneAreRefused(t *testing.T) {
	const document = `{"components":{"schemas":{"c":{"type":"object","x-kubernetes-group-version-kind":[{"group":"batch","version":"v1","kind":"CronJob"}],
		"properties":{"status":{"type":"object","properties":{"active":{"type":"string"}}}}}}}}`
	builtIn, custom := abi.Kind{APIVersion: "batch/v1", Kind: "CronJob"}, abi.Kind{APIVersion: "example.dev/v1", Kind: "CronJob"}
	of := func(kind abi.Kind, owned ...string) abi.Controller {
		return abi.Controller{Name: "c", For: kind.All(), Conditions: abi.Conditions{Owned: owned}}
	}
	for name, c := range map[string]struct {
		abi.Controller
		document, refused string
	}{
		"a kind without them":   {of(builtIn, "Late"), document, `controller "c": conditions, for which the kind has no place: remove Conditions from the controller: field "status.conditions[*].type": in the schema of batch/v1 CronJob "status" has no field "conditions"`},
		"a kind without status": {of(builtIn, "Late"), strings.Replace(document, `"status"`, `"spec"`, 1), `controller "c": conditions, for which the kind has no place: remove Conditions from the controller: field "status.conditions[*].type": in the schema of batch/v1 CronJob the object has no field "status"`},
		"a kind with them":      {of(builtIn, "Late"), strings.Replace(document, `"active":{"type":"string"}`, `"conditions":{"type":"array","items":{"type":"object","properties":{"type":{"type":"string"}}}}`, 1), ""},
		"no conditions":         {of(builtIn), document, ""},
		"a custom kind":         {of(custom, "Late"), strings.Replace(document, `"batch"`, `"example.dev"`, 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects, err := cache.New(cache.Config{REST: &rest.Config{Host: "http://localhost", Transport: &schemas{200, c.document, 0}}})
				if err != nil {
					t.Fatal(err)
				}
				defer objects.Stop()
				r, message := New(Config{Cache: objects, Logger: logtest.New(hclog.Warn).Logger}), ""
				if err := (&start{Runner: r, rev: &Revision{Manifest: &abi.Manifest{Controllers: []abi.Controller{c.Controller}}}}).checkFields(t.Context()); err != nil {
					message = err.Error()
				}
				if message != c.refused {
					t.Errorf("got %q, want %q", message, c.refused)
				}
			})
		})
	}
}
