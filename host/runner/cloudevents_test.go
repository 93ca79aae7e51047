package runner

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cloudevents"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/await"
)

// eventIDs is a sink that keeps the ids of events by the path of its URL.
type eventIDs struct {
	*httptest.Server
	mu  sync.Mutex
	ids map[string][]string
}

func newEventIDs(t *testing.T) *eventIDs {
	s := &eventIDs{ids: map[string][]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e struct{ ID string }
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ids[r.URL.Path] = append(s.ids[r.URL.Path], e.ID)
	}))
	t.Cleanup(s.Close)
	return s
}

// await waits until the sink with that path has had these events, in any order.
func (s *eventIDs) await(t *testing.T, path string, want ...string) {
	t.Helper()
	await.Until(t, fmt.Sprintf("%s has %q", path, want), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Equal(slices.Sorted(slices.Values(s.ids[path])), want)
	})
}

func (s *eventIDs) sink(path string) cloudevents.Sink {
	return cloudevents.Sink{Name: path[1:], URL: s.URL + path, Addresses: []string{"loopback"}}
}

// What is there is announced when a plugin starts, to sinks that come later, and when its controller
// begins to publish; not because another revision runs.
func TestObjectsAreAnnounced(t *testing.T) {
	sinks := newEventIDs(t)
	_, url := startRefusingServer(t) // has a widget that is suspended
	r := newRunner(t, url, "")
	number := 0
	start := func(dryRun, publish bool, wanted ...cloudevents.Sink) *controller {
		t.Helper()
		number++
		policy := config.Policy{DryRun: dryRun, CloudEvents: cloudevents.Settings{Sinks: wanted}}
		policy.Limits.Concurrency = 1
		err := r.Start(t.Context(), &Revision{
			Revision: events.Revision{Plugin: "p", Number: number, Digest: "d"}, Policy: policy,
			Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: widgets.All(), CloudEvents: publish}}},
		}, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return r.plugins["p"].controllers["c"]
	}
	first, second := sinks.sink("/first"), sinks.sink("/second")
	if c := start(false, false, first); c.announcer != nil {
		t.Error("a controller announces that publishes nothing")
	}
	start(false, true, first)
	sinks.await(t, "/first", "u/created")
	start(false, true, first)
	start(false, true, first, second)
	sinks.await(t, "/second", "u/created")
	if c := start(true, true, first, second); c.announcer == nil {
		t.Error("the controller ceases to announce in a dry run")
	}
	start(false, false, first, second)
	start(false, true, first, second)
	sinks.await(t, "/first", "u/created", "u/created")
	sinks.await(t, "/second", "u/created", "u/created")
	if got := gathered(t, r, "thole_cloudevents_published_total"); got == "" {
		t.Error("there are no metrics")
	}
	r.Stop("p", false)
	r.WaitPublished()
}
