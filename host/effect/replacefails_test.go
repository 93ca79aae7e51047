package effect

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
)

func TestADryRunReplacesNothing(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(secret), nil)
	in := func(value string) *abi.Result {
		return named(secret, fmt.Sprintf(`"immutable":true,"stringData":{"k":%q}`, value))
	}
	w.intents(target, in("hidden1"))
	old := w.seen(secret, "c")
	w.start(func(c *Config) { c.DryRun = true })
	report := w.intents(target, in("hidden2"))
	if got := w.live(secret, "c"); got == nil || got.ResourceVersion != old.ResourceVersion || len(report.Writes)+len(w.recorder.events) != 0 {
		t.Errorf("got %v, reported %+v", got, report.Writes)
	}
	if line := w.logs.Next(t); line.Message != "dry run: would replace" || strings.Contains(fmt.Sprint(line), "hidden") {
		t.Errorf("logged %v", line)
	}
}

func TestReplaceIsCheckedBeforeAnyRequest(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, list(configMap))
	if _, failure := w.PerformIntents(t.Context(), target, immutable("1")); failure == nil || failure.Class != abi.ClassABI || !strings.Contains(failure.Message, "list the kind in Owns") {
		t.Errorf("of a kind in writes: %+v", failure)
	}
	target.Controller = controller(list(secret), nil)
	for verbs, missing := range map[string]string{"patch create": "delete", "patch delete": "create", "create delete": "patch"} {
		w.allow(entry(secret, verbs))
		_, failure := w.PerformIntents(t.Context(), target, named(secret, `"type":"a"`))
		w.expectNotAllowed(verbs, failure, "{groups: [''], kinds: [Secret], verbs: ["+missing+"]}")
	}
	w.expectSent()
}

// A run that has to wait for a place under the limit of writes is performed again from its
// beginning.
func TestReplaceEndsUnderALimitOfWrites(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, immutable("1"))
	old := w.seen(configMap, "c")
	w.start(func(c *Config) { c.QPS, c.Burst = 1, 1 })
	for range 4 {
		_, failure := w.PerformIntents(t.Context(), target, immutable("2"))
		w.seen(configMap, "c")
		if failure == nil {
			break
		}
		if failure.Later == 0 {
			t.Fatalf("failed with %+v", failure)
		}
		w.now = w.now.Add(time.Second)
	}
	if got := w.live(configMap, "c"); got == nil || got.UID == old.UID || len(w.recorder.events) != 1 {
		t.Errorf("got %v, emitted %q", got, w.recorder.events)
	}
}

// The host ends, or loses the reply, after the API server has deleted the object.
func TestWhatWasDeletedToBeReplacedIsCreatedByTheNextRun(t *testing.T) {
	w := newCluster(t)
	target := w.owner(list(configMap), nil)
	w.intents(target, immutable("1"))
	w.seen(configMap, "c")
	var refuse atomic.Bool
	w.start(until(&refuse))
	var hook func(request)
	hook = func(r request) {
		refuse.Store(r.method == http.MethodDelete) // no write is sent after it
		w.wire.before = hook
	}
	w.wire.before = hook
	if _, failure := w.PerformIntents(t.Context(), target, immutable("2")); failure == nil || failure.Later == 0 {
		t.Fatalf("failed with %+v", failure)
	}
	w.wire.before = nil
	if w.live(configMap, "c") != nil {
		t.Fatal("it is not deleted")
	}
	w.start()
	if _, failure := w.PerformIntents(t.Context(), target, immutable("2")); failure == nil || !failure.Conflict {
		t.Errorf("with a cache that is behind: %+v, want a conflict", failure)
	}
	w.seen(configMap, "c")
	w.intents(target, immutable("2"))
	if got := w.live(configMap, "c"); field(got, "data") != `{"k":"2"}` {
		t.Errorf("got %v", got)
	}
}

// If the reply to the deletion is lost, the object may be gone: the Event Replaced is emitted. An
// error that does not come from the object itself, such as an outage, deletes nothing.
func TestErrorsWhileAnObjectIsReplaced(t *testing.T) {
	const have = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default","uid":"u2","resourceVersion":"7",
"ownerReferences":[{"apiVersion":"test.thole.dev/v1","kind":"Widget","name":"w","uid":"u1","controller":true}]}}`
	for name, c := range map[string]struct {
		codes    map[string]int // by method
		requests string
		events   int
		reason   string
	}{
		"the read fails":                {map[string]int{"GET": 500}, "PATCH GET", 0, "InternalError"},
		"the check is postponed":        {map[string]int{"POST": 429}, "PATCH GET POST", 0, "TooManyRequests"},
		"the check fails":               {map[string]int{"POST": 500}, "PATCH GET POST", 0, "InternalError"},
		"the creation would be refused": {map[string]int{"POST": 403}, "PATCH GET POST", 0, "Invalid"},
		"the delete is refused":         {map[string]int{"DELETE": 403}, "PATCH GET POST DELETE", 0, "Forbidden"},
		"the delete has no answer":      {map[string]int{"DELETE": 500}, "PATCH GET POST DELETE", 1, "InternalError"},
	} {
		t.Run(name, func(t *testing.T) {
			reasons := map[int]string{500: "InternalError", 429: "TooManyRequests", 403: "Forbidden"}
			w, target := newFake(t, func(out http.ResponseWriter, in *http.Request) {
				code := c.codes[in.Method]
				switch {
				case code != 0:
					respondStatus(code, reasons[code], "no", "")(out, in)
				case in.Method == http.MethodGet:
					respond(200, "application/json", have)(out, in)
				case in.Method == http.MethodPatch:
					respondStatus(422, "Invalid", "immutable", `{"field":"data","reason":"FieldValueForbidden"}`)(out, in)
				default:
					respondStatus(409, "AlreadyExists", "exists", "")(out, in)
				}
			})
			w.store.put(parse(t, have))
			_, failure := w.PerformIntents(t.Context(), target, immutable("2"))
			if got := w.wire.methods(); got != c.requests || len(w.recorder.events) != c.events || failure == nil || failure.Reason != c.reason {
				t.Errorf("sent %s, emitted %q, failed with %+v", got, w.recorder.events, failure)
			}
		})
	}
}
