package cloudevents

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		os.Setenv(name, "http://127.0.0.1:9") // which no request may use
	}
	await.Main(m, func() error { return goleak.Find() })
}

var widget = abi.Kind{APIVersion: "example.dev/v1", Kind: "Widget"}

// change returns the n-th update of an object.
func change(name string, n int) Change {
	return Change{Type: Updated, Object: Subject{UID: "u-" + name, Kind: widget, Key: object.Key{Namespace: "ns", Name: name}, ResourceVersion: fmt.Sprint(100 + n), Generation: int64(n)}}
}

// receiver is a sink that reads events with the SDK. It can be down, at the same address.
type receiver struct {
	t       *testing.T
	address string
	server  *httptest.Server

	mu       sync.Mutex
	got      []event.Event
	requests []*http.Request
	answer   http.HandlerFunc // instead of taking the events; nil: they are taken
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t, address: "127.0.0.1:0"}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *receiver) start() {
	r.t.Helper()
	listener, err := net.Listen("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.address = listener.Addr().String()
	r.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: r}}
	r.server.Start()
}

func (r *receiver) stop() {
	r.server.CloseClientConnections()
	r.server.Close()
}

func (r *receiver) url() string { return "http://" + r.address + "/in" }

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	answer := r.answer
	r.requests = append(r.requests, request)
	r.mu.Unlock()
	if answer != nil {
		answer(w, request)
		return
	}
	// The end of a sink cancels its requests: the sink has not got such a one.
	body, err := io.ReadAll(request.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	r.take(request)
	w.WriteHeader(http.StatusAccepted)
}

// take keeps the events of a request, all of which must be valid.
func (r *receiver) take(request *http.Request) {
	var events []event.Event
	var err error
	if cehttp.IsHTTPBatch(request.Header) {
		events, err = cehttp.NewEventsFromHTTPRequest(request)
	} else {
		var e *event.Event
		if e, err = cehttp.NewEventFromHTTPRequest(request); err == nil {
			events = []event.Event{*e}
		}
	}
	if err != nil {
		r.t.Errorf("the SDK cannot read a request: %v", err)
	}
	for _, e := range events {
		if err := e.Validate(); err != nil {
			r.t.Errorf("an event is not valid: %v", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, events...)
}

func (r *receiver) answers(how http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = how
}

func (r *receiver) events() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]event.Event(nil), r.got...)
}

func (r *receiver) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests)
}

func (r *receiver) awaitEvents(n int) []event.Event {
	r.t.Helper()
	await.Until(r.t, fmt.Sprintf("the sink has %d events", n), func() bool { return len(r.events()) >= n })
	return r.events()
}

// counts are the metrics of one sink.
type counts struct {
	mu        sync.Mutex
	published int
	dropped   map[string]int
	buffered  int
	most      int // of buffered
	failures  int
}

func (c *counts) change(how func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	how()
}

func (c *counts) Published(n int)              { c.change(func() { c.published += n }) }
func (c *counts) Dropped(reason string, n int) { c.change(func() { c.dropped[reason] += n }) }
func (c *counts) Buffered(n int)               { c.change(func() { c.buffered = n; c.most = max(c.most, n) }) }
func (c *counts) Failed()                      { c.change(func() { c.failures++ }) }

func (c *counts) String() (s string) {
	c.change(func() { s = fmt.Sprint("published ", c.published, " dropped ", c.dropped, " buffered ", c.buffered) })
	return s
}

func (c *counts) awaitText(t *testing.T, want string) {
	t.Helper()
	await.Until(t, want+" (is "+c.String()+")", func() bool { return c.String() == want })
}

// world is a publisher whose metrics are kept by sink.
type world struct {
	*Publisher
	mu     sync.Mutex
	counts map[string]*counts
}

func newWorld(t *testing.T, log hclog.Logger) *world {
	t.Helper()
	if log == nil {
		log = hclog.NewNullLogger()
	}
	w := &world{counts: map[string]*counts{}}
	w.Publisher = New(Config{Plugin: "p", Logger: log, Metrics: func(sink string) Metrics { return w.of(sink) }, Dropped: func(d Drop) {
		log.Warn("dropped", "sink", d.Sink, "reason", d.Reason, "why", d.Why, "events", d.Events)
	}})
	t.Cleanup(w.Publisher.Close)
	return w
}

func (w *world) of(sink string) *counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts[sink] == nil {
		w.counts[sink] = &counts{dropped: map[string]int{}}
	}
	return w.counts[sink]
}

// configure configures sinks on loopback.
func (w *world) configure(t *testing.T, sinks ...Sink) (added bool) {
	t.Helper()
	for i := range sinks {
		sinks[i].Addresses = []string{"loopback"}
	}
	settings := Settings{Sinks: sinks}
	if problems := settings.problems(nil); problems != nil {
		t.Fatal(problems)
	}
	return w.Configure(settings, nil)
}

// expectOrder fails unless the generations of each object come in their order. An event may come twice,
// and of batches also those after it.
func expectOrder(t *testing.T, mode Mode, events []event.Event) (objects map[string]int64) {
	t.Helper()
	objects = map[string]int64{}
	for _, e := range events {
		var data changeData
		if err := e.DataAs(&data); err != nil {
			t.Fatal(err)
		}
		last := objects[e.Subject()]
		again := mode == ModeBatch && data.Generation < last
		if data.Generation != last && data.Generation != last+1 && !again {
			t.Fatalf("%s: generation %d comes after %d", e.Subject(), data.Generation, last)
		}
		objects[e.Subject()] = data.Generation
	}
	return objects
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
