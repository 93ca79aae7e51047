package effect

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
)

var errNotNow = errors.New("another replica leads")

// testLease refuses writes from the time on that refuse becomes true.
type testLease struct {
	refuse *atomic.Bool
	sent   atomic.Int64 // writes on their way
}

func (l *testLease) Check() error {
	if l.refuse.Load() {
		return errNotNow
	}
	return nil
}

func (l *testLease) BeginWrite() (end func(), err error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	l.sent.Add(1)
	return func() { l.sent.Add(-1) }, nil
}

// until has a plugin's Lease refuse from the time on that now becomes true.
func until(now *atomic.Bool) func(*Config) {
	return func(c *Config) { c.Lease = &testLease{refuse: now} }
}

func expectUnsent(t *testing.T, failure *Failure) {
	t.Helper()
	if failure == nil || failure.Later == 0 || failure.Reason != reasonNotLeading || failure.Uncertain || failure.Outage || !errors.Is(failure, errNotNow) || failure.Message != errNotNow.Error() {
		t.Errorf("failed with %+v", failure)
	}
}

// What is read may be read at any time.
func TestNoWriteIsSentThatMayNotBe(t *testing.T) {
	var sent []string
	w, target := newFake(t, func(out http.ResponseWriter, request *http.Request) {
		sent = append(sent, request.Method)
		respond(200, "application/json", primary)(out, request)
	})
	var refuse atomic.Bool
	refuse.Store(true)
	w.start(until(&refuse))
	_, failure := w.EnsureFinalizer(t.Context(), target)
	expectUnsent(t, failure)
	if slices.Contains(sent, http.MethodPatch) {
		t.Errorf("sent %q", sent)
	}
	if _, err := w.Live(t.Context(), widget.Kind, target.Object.Key()); err != nil {
		t.Errorf("a read fails: %v", err)
	}
	refuse.Store(false)
	if _, failure := w.EnsureFinalizer(t.Context(), target); failure != nil || !slices.Contains(sent, http.MethodPatch) {
		t.Errorf("failed with %v, sent %q", failure, sent)
	}
}

// The Lease is not given to another replica before that.
func TestAWriteEndsWhenItWasAnswered(t *testing.T) {
	var refuse atomic.Bool
	lease := &testLease{refuse: &refuse}
	g := guard{lease: lease}
	for method, want := range map[string]int64{http.MethodGet: 0, http.MethodPatch: 1, http.MethodDelete: 1} {
		g.next = roundTripper(func(*http.Request) (*http.Response, error) {
			if n := lease.sent.Load(); n != want {
				t.Errorf("%s: %d writes are on their way, want %d", method, n, want)
			}
			return nil, errNotNow
		})
		request, err := http.NewRequestWithContext(t.Context(), method, "http://api", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.RoundTrip(request); err == nil || lease.sent.Load() != 0 { //nolint:bodyclose // there is none
			t.Errorf("%s: %v, %d writes are on their way after it", method, err, lease.sent.Load())
		}
	}
}

// The replica ceases to lead while the write waits for a connection: with HTTP/1, and with
// HTTP/2 as the API server has it.
func TestAWriteIsNotSentOnAConnectionThatTookTooLong(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) (*world, Target){
		"HTTP/1": func(t *testing.T) (*world, Target) {
			w, target := newFake(t, func(_ http.ResponseWriter, request *http.Request) {
				if body, err := io.ReadAll(request.Body); err == nil {
					t.Errorf("got a complete request: %s %s", request.Method, body)
				}
			})
			w.config.WrapTransport = nil // it would read the body before there is a connection
			return w, target
		},
		"HTTP/2": func(t *testing.T) (*world, Target) {
			w := newCluster(t)
			target := w.owner(nil, nil)
			w.config.WrapTransport = nil
			return w, target
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, target := make(t)
			var refuse atomic.Bool
			w.config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
				refuse.Store(true)
				return connection, err
			}
			w.start(until(&refuse))
			_, failure := w.EnsureFinalizer(t.Context(), target)
			expectUnsent(t, failure)
			if name == "HTTP/2" && len(w.live(widget, "w").Finalizers) != 0 {
				t.Error("the finalizer was written")
			}
		})
	}
}

// roundTripper is a transport in one function.
type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// A transport repeats a request if the connection was closed before the first byte.
func TestAWriteIsNotSentAgainOnAnotherConnection(t *testing.T) {
	var refuse atomic.Bool
	g := guard{lease: &testLease{refuse: &refuse}}
	g.next = roundTripper(func(request *http.Request) (*http.Response, error) {
		first, err := io.ReadAll(request.Body)
		if err != nil || string(first) != "body" {
			t.Errorf("the first attempt sends %q, %v", first, err)
		}
		refuse.Store(true)
		if n, err := request.Body.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after the last byte a read returns %d, %v", n, err)
		}
		again, err := request.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		second, err := io.ReadAll(again)
		if len(second) > 0 {
			t.Errorf("the second attempt sends %q", second)
		}
		return nil, err
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "http://k", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.RoundTrip(request); !errors.Is(err, errNotNow) { //nolint:bodyclose // there is no response
		t.Errorf("got %v", err)
	}
}

func TestNoEventIsEmittedWhileNothingMayBeWritten(t *testing.T) {
	w := newWorld(t, &rest.Config{})
	target := Target{Controller: controller(nil, nil), Object: parse(t, primary)}
	var refuse atomic.Bool
	w.start(until(&refuse))
	event := func(reason string) abi.Event { return abi.Event{Type: abi.EventNormal, Reason: reason} }
	emit := func() {
		t.Helper()
		if _, failure := w.PerformIntents(t.Context(), target, &abi.Result{Events: []abi.Event{event("Guest")}}); failure != nil {
			t.Error(failure)
		}
		host := event("Host")
		w.EmitEvent(target, &host)
	}
	refuse.Store(true)
	emit()
	if len(w.recorder.events) != 0 {
		t.Errorf("emitted %q", w.recorder.events)
	}
	w.start(until(&refuse)) // it leads again
	refuse.Store(false)
	emit()
	if len(w.recorder.events) != 2 {
		t.Errorf("emitted %q", w.recorder.events)
	}
}
