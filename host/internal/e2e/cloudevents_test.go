package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

var stampKind = abi.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"}

// publishingPlugin returns a plugin that publishes the events of stamps.
func publishingPlugin() []byte {
	return pluginWithManifest(abi.EncodeManifest(&abi.Manifest{
		Name: "publisher", Version: "1",
		Controllers: []abi.Controller{{Name: "main", For: stampKind.All(), Sections: []abi.Section{{Name: "cloudEvents", Value: []byte("true")}}}},
	}))
}

// eventSink receives events. It can be down, at the same address.
type eventSink struct {
	t       *testing.T
	address string
	server  *httptest.Server

	mu      sync.Mutex
	got     []event.Event
	refuses string // the subject of the events that are answered with 400
}

func newEventSink(t *testing.T) *eventSink {
	s := &eventSink{t: t, address: tholetest.RandomLoopback()}
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *eventSink) start() {
	s.t.Helper()
	listener, err := net.Listen("tcp", s.address)
	must(s.t, err)
	s.address = listener.Addr().String()
	s.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: s}}
	s.server.Start()
}

func (s *eventSink) stop() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// ServeHTTP implements http.Handler.
func (s *eventSink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	events, err := cehttp.NewEventsFromHTTPRequest(r)
	if err != nil {
		var e *event.Event
		if e, err = cehttp.NewEventFromHTTPRequest(r); err == nil {
			events = []event.Event{*e}
		}
	}
	if err != nil {
		s.t.Errorf("the SDK cannot read a request: %v", err)
	}
	for _, e := range events {
		if err := e.Validate(); err != nil {
			s.t.Errorf("an event is not valid: %v", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(events, func(e event.Event) bool { return e.Subject() == s.refuses }) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.got = append(s.got, events...)
}

// data returns the data of an event that has come, as JSON with sorted names.
func (s *eventSink) data(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.got {
		if e.ID() == id {
			var data map[string]any
			must(s.t, e.DataAs(&data))
			text, err := json.Marshal(data)
			must(s.t, err)
			return string(text)
		}
	}
	return ""
}

// about returns the events about an object, of a source, each once: its type and id.
func (s *eventSink) about(subject, source string) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.got {
		if text := e.Type() + " " + e.ID(); e.Subject() == subject && e.Source() == source && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

func (s *eventSink) await(what, subject, source string, want ...string) {
	s.t.Helper()
	defer func() {
		if s.t.Failed() {
			s.t.Logf("%s of %s: %q, want %q", source, subject, s.about(subject, source), want)
		}
	}()
	await.Until(s.t, what, func() bool { return slices.Equal(s.about(subject, source), want) })
}

// times returns how often an event came.
func (s *eventSink) times(id string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.got {
		if e.ID() == id {
			n++
		}
	}
	return n
}

// sinkConfig is the policy and the configuration for a sink.
func (s *eventSink) sinkConfig(plugin, mode string) (policy, config string) {
	return fmt.Sprintf("cloudEvents: {typePrefix: dev.thole, sinks: [{name: test, url: 'http://%s/in', mode: %s, addresses: [loopback]}]}\n", s.address, mode),
		fmt.Sprintf("allow: {http: {%s: [{host: '%s', scheme: http, methods: [POST], addresses: [loopback]}]}}\n", plugin, s.address)
}

// The events of the document, by the real API server: created, updated, status updated, deleted, and the
// end of each run. After a fail-over or a restart the same changes have the same ids.
func TestChangesAndRunsArePublished(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d, sink := namespace(t), newDirectory(t), newEventSink(t)
	policy, config := sink.sinkConfig("publisher", "binary")
	d.installPolicy("publisher", policy)
	d.install("publisher", publishingPlugin())
	replica := func() *process {
		return start(t, d, ns, config, func(h *tholetest.Host) {
			h.Args = append(append(h.Args, "--leader-elect", "--leader-elect-resource-namespace="+ns), soonExpires...)
		})
	}
	first := replica()
	first.awaitRunning("publisher", 1)

	createStamp(t, ns, "a", "1")
	uid := func(name string) string { return string(get(t, stamps, ns, name).GetUID()) }
	awaitObserved := func(generation int64) {
		t.Helper()
		await.Until(t, "the status is written", func() bool {
			observed, _, _ := unstructured.NestedInt64(get(t, stamps, ns, "a").Object, "status", "observedGeneration")
			return observed == generation
		})
	}
	awaitObserved(1)
	a := uid("a")
	version := func() string { return get(t, stamps, ns, "a").GetResourceVersion() }
	want := []string{"dev.thole.stamp.created " + a + "/created", "dev.thole.stamp.status_updated " + a + "/status_updated/v" + version()}
	sink.await("a was created", ns+"/a", "watcher/stamp", want...)

	updated, err := objects.Resource(stamps).Namespace(ns).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"text":"2"}}`), metav1.PatchOptions{})
	must(t, err)
	awaitObserved(2)
	want = append(want, "dev.thole.stamp.updated "+a+"/updated/v"+updated.GetResourceVersion(), "dev.thole.stamp.status_updated "+a+"/status_updated/v"+version())
	sink.await("a was updated", ns+"/a", "watcher/stamp", want...)
	for id, data := range map[string]string{
		a + "/created": `"changeType":"CREATED","generation":1,"kind":"Stamp","observedGeneration":0`,
		a + "/updated/v" + updated.GetResourceVersion(): `"changeType":"UPDATED","generation":2,"kind":"Stamp","observedGeneration":1`,
		a + "/status_updated/v" + version():             `"changeType":"STATUS_UPDATED","generation":2,"kind":"Stamp","observedGeneration":2`,
	} {
		if got, want := sink.data(id), `{"apiVersion":"e2e.thole.dev/v1",`+data+`,"resourceUid":"`+a+`"}`; got != want {
			t.Errorf("the data of %s is %s\nwant %s", id, got, want)
		}
	}
	annotate(t, stamps, ns, "a", "of", "nothing") // no event
	await.Until(t, "two runs have ended", func() bool { return len(sink.about(ns+"/a", "controller/publisher/main")) >= 2 })
	for _, e := range sink.about(ns+"/a", "controller/publisher/main") {
		if !strings.HasPrefix(e, "dev.thole.stamp.reconciled.success "+a+"/run/") {
			t.Errorf("the end of a run is %s", e)
		}
	}

	second := replica()
	await.Until(t, "the second replica could take over", func() bool { return second.Plugin("publisher").State == "standby" })
	createStamp(t, ns, "b", "1")
	await.Until(t, "b is announced", func() bool { return len(sink.about(ns+"/b", "watcher/stamp")) == 2 })
	b := uid("b")
	if n := sink.times(b + "/created"); n != 1 {
		t.Errorf("%d replicas have published the creation of b", n)
	}
	first.kill()
	await.Until(t, "the second replica announces what is there", func() bool { return sink.times(a+"/created") == 2 && sink.times(b+"/created") == 2 })
	sink.await("the ids are the same", ns+"/a", "watcher/stamp", want...)

	deleted := "dev.thole.stamp.deleted " + a + "/deleted/v" + version()
	remove(t, stamps, ns, "a")
	sink.await("a was deleted", ns+"/a", "watcher/stamp", append(want, deleted)...)
	m := second.Metrics()
	if n := m.Sum("thole_cloudevents_dropped_total"); n != 0 || m.Count("thole_cloudevents_dropped_total", "sink", "test") != 4 {
		t.Errorf("%v events were dropped: %v", n, m)
	}
	if m.Sum("thole_cloudevents_published_total", "plugin", "publisher", "sink", "test") == 0 {
		t.Error("no event is counted")
	}
}

// What a sink refuses is lost, which is counted and logged. It gets the events about other objects.
func TestEventsThatASinkDoesNotGetAreReported(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d, sink := namespace(t), newDirectory(t), newEventSink(t)
	sink.refuses = ns + "/bad"
	policy, config := sink.sinkConfig("publisher", "batch")
	d.installPolicy("publisher", policy)
	d.install("publisher", publishingPlugin())
	createStamp(t, ns, "bad", "1")
	createStamp(t, ns, "good", "1")
	p := start(t, d, ns, config)
	p.awaitRunning("publisher", 1)
	await.Until(t, "the events about the other object have come", func() bool { return len(sink.about(ns+"/good", "watcher/stamp")) == 2 })
	dropped := func() float64 {
		return p.Metrics().Sum("thole_cloudevents_dropped_total", "sink", "test", "reason", "refused")
	}
	// Created, its status updated, and the end of a run.
	await.Until(t, "the refused events are counted", func() bool { return dropped() >= 3 })
	await.Until(t, "the first of them are logged", func() bool {
		return len(p.Log.Events("CloudEventsDropped", "plugin", "publisher", "sink", "test", "reason", "refused")) > 0
	})
	if got := sink.about(ns+"/bad", "watcher/stamp"); len(got) != 0 {
		t.Errorf("the sink has taken %q", got)
	}
	counted := dropped()
	p.stop() // what was not logged yet is logged now
	logged := 0.0
	for _, line := range p.Log.Events("CloudEventsDropped", "reason", "refused") {
		n, _ := line["events"].(float64)
		logged += n
	}
	if logged < counted {
		t.Errorf("%g dropped events are counted and %g logged", counted, logged)
	}
}

// A sink is away for a minute, with SOAK, while the API server takes 100 changes a second: all events of
// that time come later, those of an object in their order.
func TestSoakSinkIsAwayUnderLoad(t *testing.T) {
	down := 3 * time.Second
	if os.Getenv("SOAK") != "" {
		down = time.Minute
	}
	const objects = 20
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d, sink := namespace(t), newDirectory(t), newEventSink(t)
	policy, config := sink.sinkConfig("publisher", "batch")
	d.installPolicy("publisher", policy)
	d.install("publisher", publishingPlugin())
	p := start(t, d, ns, config, quietlyIn(t.TempDir()))
	p.awaitRunning("publisher", 1)
	name := func(i int) string { return fmt.Sprint("s-", i%objects) }
	for i := range objects {
		createStamp(t, ns, name(i), "")
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	changes := 0
	load := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); changes++ {
			<-ticker.C
			must(t, patchSpec(t.Context(), stamps, ns, name(changes), "text", fmt.Sprint(changes)))
		}
	}
	load(time.Second)
	sink.stop()
	load(down)
	waiting := p.Metrics().Sum("thole_cloudevents_buffered")
	sink.start()
	load(time.Second)
	for i := range objects {
		o := get(t, stamps, ns, name(i))
		await.Until(t, "the last change of "+o.GetName()+" arrives", func() bool { return sink.generation(ns+"/"+o.GetName()) == o.GetGeneration() })
	}
	await.Until(t, "the buffer is empty", func() bool { return p.Metrics().Sum("thole_cloudevents_buffered") == 0 })
	m := p.Metrics()
	t.Logf("%d changes, %v events were buffered and %v published", changes, waiting, m.Sum("thole_cloudevents_published_total"))
	if n := m.Sum("thole_cloudevents_dropped_total"); n != 0 || waiting < float64(changes)/10 {
		t.Errorf("%v events were dropped, %v waited for the sink", n, waiting)
	}
	sink.expectEveryGeneration(ns)
}

// generation returns that of the last event about a change of an object.
func (s *eventSink) generation(subject string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var data struct{ Generation int64 }
	for _, e := range slices.Backward(s.got) {
		if e.Subject() == subject && strings.HasSuffix(e.Type(), ".updated") {
			must(s.t, e.DataAs(&data))
			break
		}
	}
	return data.Generation
}

// expectEveryGeneration fails unless the generations of each object came in their order, and none is
// missing. What was delivered before, by its id, may come again.
func (s *eventSink) expectEveryGeneration(ns string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	last, seen := map[string]int64{}, map[string]bool{}
	for _, e := range s.got {
		if seen[e.ID()] {
			continue
		}
		seen[e.ID()] = true
		var data struct{ Generation int64 }
		must(s.t, e.DataAs(&data))
		switch before := last[e.Subject()]; {
		case !strings.HasPrefix(e.Subject(), ns+"/"), !strings.HasSuffix(e.Type(), ".created") && !strings.HasSuffix(e.Type(), ".updated"):
		case data.Generation != before+1 && data.Generation != before:
			s.t.Errorf("%s: generation %d came after %d", e.Subject(), data.Generation, before)
		default:
			last[e.Subject()] = data.Generation
		}
	}
}
