package receives

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/receives"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/telemetry"
)

// handle is that of a controller.
type handle struct {
	runner.Handle
	*controller
}

func (h handle) Resource() object.Resource { return h.controller.Resource() }

func (h handle) MayWrite() bool { return h.controller.MayWrite() }

func (h handle) Has(key object.Key) bool { return h.controller.Has(key) }

func (h handle) Resolve(index, key string, most int) ([]object.Key, error) {
	return h.controller.Resolve(index, key, most)
}

func (h handle) Signal(key object.Key, given ...[]byte) bool {
	return h.controller.Signal(key, given...)
}

// of returns a controller that receives these.
func of(name string, all ...contract.Receive) abi.Controller {
	c := abi.Controller{Name: name, For: abi.Kind{APIVersion: "a.b/v1", Kind: "K"}.All()}
	if all != nil {
		c.Sections = []abi.Section{{Name: contract.Name, Value: contract.Encode(all)}}
	}
	return c
}

func revisionOf(perSecond float32, controllers ...abi.Controller) *runner.Revision {
	return &runner.Revision{
		Revision: events.Revision{Plugin: "p"}, Manifest: &abi.Manifest{Name: "p", Controllers: controllers},
		Policy: config.Policy{Sections: map[string]config.PolicySection{"receives": &Settings{EventsPerSecond: perSecond}}},
	}
}

func TestReceiversAreThoseOfTheRunningRevisions(t *testing.T) {
	c := &capability{metrics: newMetrics(telemetry.NewMetrics()), rate: 7}
	part := c.plugin("p")
	use := func(rev *runner.Revision) {
		t.Helper()
		use, err := part.Prepare(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		use(runner.Running{Logger: func(l hclog.Logger) hclog.Logger { return l }})
	}
	refused, err := part.Prepare(t.Context(), revisionOf(1, of("z", contract.Receive{Type: "t"})))
	if all := c.receivers.all(); len(all) > 0 || c.receivers.knows("p") || refused == nil || err != nil {
		t.Errorf("before a revision runs: %+v, %v", all, err)
	}
	rev := revisionOf(2, of("z", contract.Receive{Type: "t"}), of("deaf"), of("a", contract.Receive{DataSchema: "s"}))
	use(rev)
	if all := c.receivers.all(); len(all) != 2 || all[0].Name != "a" || all[1].Name != "z" || all[0].takes() || all[1].takes() || !c.receivers.knows("p") || c.receivers.knows("q") {
		t.Errorf("before its controllers run: %+v", all)
	}
	h := handle{controller: newController(resource("labs", true), nil)}
	running := part.Controller(h)
	if c.receivers.all()[1].takes() {
		t.Error("a controller that has not started takes events")
	}
	running.Swapped(nil, &dispatch.Revision{Controller: rev.Manifest.Controllers[0]})
	all := c.receivers.all()
	if all[0].takes() || !all[1].takes() || all[1].Controller.Resource() != h.served || all[1].Receives[0].Type != "t" {
		t.Fatalf("%+v", all)
	}
	h.away.Store(true)
	if all[1].takes() {
		t.Error("a controller takes events that another replica leads")
	}
	h.away.Store(false)
	now, limit := time.Now(), all[0].Rate
	if all[1].Rate != limit || !limit.AllowN(now, MaxBatch) || limit.AllowN(now, 1) || !limit.AllowN(now.Add(time.Second), 2) || limit.AllowN(now.Add(time.Second), 1) {
		t.Error("the rate is not that of the policy, for all controllers")
	}

	next := revisionOf(3, of("z", contract.Receive{Type: "u"}))
	use(next)
	if all := c.receivers.all(); len(all) != 1 || !all[0].takes() || all[0].Receives[0].Type != "u" || all[0].Rate != limit || limit.Limit() != 3 {
		t.Errorf("another revision: %+v", all)
	}
	next.Policy.Sections = nil
	if use(next); limit.Limit() != 7 {
		t.Errorf("the rate is %v, and not that of the configuration, which the policy does not lower", limit.Limit())
	}
	running.Stop()
	if all := c.receivers.all(); all[0].takes() {
		t.Error("a controller that has ended takes events")
	}
	use(revisionOf(2, of("deaf")))
	if all := c.receivers.all(); len(all) > 0 || !c.receivers.knows("p") {
		t.Errorf("the next revision receives nothing: %+v", all)
	}
	part.Stop()
	if c.receivers.knows("p") {
		t.Error("a plugin that has stopped is known")
	}
}

func TestSeriesOfAPluginExistWhileItReceives(t *testing.T) {
	m := telemetry.NewMetrics()
	env := runner.Environment{
		Section: newHostSettings(), Clients: &kube.Clients{},
		Metrics: m, Logger: hclog.NewNullLogger(),
	}
	c := Capability().New(env)
	if _, err := c.Start(t.Context(), runner.Host{Awaits: func(runs func(string) bool) bool { return !runs("p") }}); err != nil {
		t.Fatal(err)
	}
	expect := func(want ...string) {
		t.Helper()
		families, err := m.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range families {
			for _, one := range f.GetMetric() {
				if f.GetName() == "thole_events_received_total" && one.GetLabel()[1].GetValue() != "" {
					got = append(got, one.GetLabel()[1].GetValue()+" "+one.GetLabel()[0].GetValue())
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("series %q, want %q", got, want)
		}
	}
	part := c.Plugin("p")
	expect()
	answer := httptest.NewRecorder()
	c.Serve["/events"].ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/events", nil))
	if answer.Code != 503 || !strings.Contains(answer.Body.String(), "being started") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	for _, controllers := range [][]abi.Controller{{of("deaf")}, {of("a", contract.Receive{Type: "t"})}} {
		use, err := part.Prepare(t.Context(), revisionOf(1, controllers...))
		if err != nil {
			t.Fatal(err)
		}
		expect()
		use(runner.Running{Logger: func(l hclog.Logger) hclog.Logger { return l }})
	}
	expect("p 202")
	m.CountEvents().Observe(events.PluginStopped{Plugin: "p"})
	expect()
}

func TestRulesAndRows(t *testing.T) {
	c := Capability()
	all := of("a",
		contract.Receive{Type: "com.example.stopped", Resolve: &contract.Resolve{Index: "container", From: "data.id"}},
		contract.Receive{Type: "com.example.started"},
		contract.Receive{DataSchema: "https://example.com/lab"},
		contract.Receive{Type: "t", DataSchema: "https://example.com/lab"},
	)
	deaf := of("deaf")
	if got, want := c.Describe(&all), "com.example.stopped by index container from data.id, com.example.started by subject, of schema https://example.com/lab by subject, t of schema https://example.com/lab by subject"; got != want || c.Describe(&deaf) != "" {
		t.Errorf("%q, want %q", got, want)
	}
	var rules []string
	for _, r := range c.Rules(&abi.Manifest{Controllers: []abi.Controller{deaf, all}}, nil) {
		rules = append(rules, r.Group+"/"+r.Path()+" "+strings.Join(r.Verbs, " "))
	}
	if want := []string{"authentication.k8s.io/tokenreviews " + rights.Create, "authorization.k8s.io/subjectaccessreviews " + rights.Create}; !slices.Equal(rules, want) {
		t.Errorf("%q, want %q", rules, want)
	}
	if got := c.Rules(&abi.Manifest{Controllers: []abi.Controller{deaf}}, nil); got != nil {
		t.Errorf("%+v", got)
	}
}
