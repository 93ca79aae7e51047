package cloudevents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/telemetry"
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

func (s *eventIDs) sink(path string) Sink {
	return Sink{Name: path[1:], URL: s.URL + path, Addresses: []string{"loopback"}}
}

// started is a capability with one plugin, of one controller that has an object.
type started struct {
	t      *testing.T
	part   runner.PluginPart
	one    runner.ControllerPart
	shown  *shown
	number int
}

func start(t *testing.T, c runner.Capability) *started {
	t.Helper()
	o := widgetWith(t, aVersion, "")
	s := &started{t: t, part: c.Plugin("p"), shown: &shown{objects: map[object.Key]*object.Object{o.Key(): o}, term: make(chan struct{})}}
	close(s.shown.term)
	return s
}

// run makes a revision run.
func (s *started) run(policy config.Policy, section string) {
	s.t.Helper()
	before := s.shown.revision
	c := abi.Controller{Name: "c"}
	if section != "" {
		c.Sections = []abi.Section{{Name: "cloudEvents", Value: []byte(section)}}
	}
	s.number++
	use, err := s.part.Prepare(s.t.Context(), &runner.Revision{
		Revision: events.Revision{Plugin: "p", Number: s.number}, Policy: policy, Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{c}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	use(runner.Running{})
	if before == nil {
		s.one = s.part.Controller(s.shown)
	}
	s.shown.revision = &dispatch.Revision{Number: s.number, Controller: c}
	s.one.Swapped(before, s.shown.revision)
}

// What is there is announced when a plugin starts, to sinks that come later, and when its controller
// begins to publish; not because another revision runs.
func TestObjectsAreAnnounced(t *testing.T) {
	sinks, metrics := newEventIDs(t), telemetry.NewMetrics()
	c := newCapability(runner.Environment{Metrics: metrics, Events: events.Observers(), Logger: hclog.NewNullLogger()})
	s := start(t, c)
	with := func(wanted ...Sink) config.Policy {
		return config.Policy{Sections: map[string]config.PolicySection{"cloudEvents": &Settings{Sinks: wanted}}}
	}
	first, second := sinks.sink("/first"), sinks.sink("/second")
	s.run(with(first), "")
	s.run(with(first), "true")
	sinks.await(t, "/first", "u1/created")
	s.run(with(first), "true")
	s.run(with(first, second), "true")
	sinks.await(t, "/second", "u1/created")
	dry := with(first, second)
	dry.DryRun = true
	s.run(dry, "true")
	s.run(with(first, second), "false")
	s.run(with(first, second), "true")
	sinks.await(t, "/first", "u1/created", "u1/created")
	sinks.await(t, "/second", "u1/created", "u1/created")
	if n, err := testutil.GatherAndCount(metrics.Registry, "thole_cloudevents_published_total"); n != 2 || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
	s.one.Stop()
	s.part.Stop()
	c.Stop()
}

// A plugin whose policy names no sinks publishes nothing, and costs nothing.
func TestWithoutSinksNothingIsPublished(t *testing.T) {
	c := newCapability(runner.Environment{Metrics: telemetry.NewMetrics(), Events: events.Observers(), Logger: hclog.NewNullLogger()})
	s := start(t, c)
	s.run(config.Policy{}, "true")
	for _, o := range s.shown.objects {
		s.one.Changed(s.shown.revision, nil, o)
	}
	s.one.Stop()
	s.part.Stop()
	c.Stop()
}
