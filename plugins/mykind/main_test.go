package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/plugins/mykind/info"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

const (
	name  = "default/one"
	first = `{"someInfo":"hello","otherInfo":"world"}`
)

var one = info.Kind.Ref("default", "one")

// service is the other system.
type service struct {
	stored   map[string]string
	requests int
	status   int // of all answers; 0: as it should be
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests++
	body, _ := io.ReadAll(r.Body)
	_, known := s.stored[r.URL.Path]
	switch {
	case s.status != 0:
		w.WriteHeader(s.status)
	case r.Method == http.MethodPut:
		s.stored[r.URL.Path] = string(body)
	case r.Method == http.MethodDelete && known:
		delete(s.stored, r.URL.Path)
	default:
		http.NotFound(w, r)
	}
}

// newWorld returns a world with one MyKind, and the other system.
func newWorld(t *testing.T) (*sdktest.World, *service) {
	t.Helper()
	w, s := sdktest.New(t), &service{stored: map[string]string{}}
	w.ServeHTTP(s)
	w.Configure(map[string]string{"service": "https://info.example.com/"})
	w.Create(`{"apiVersion":"example.thole.dev/v2","kind":"MyKind","metadata":{"namespace":"default","name":"one"},"spec":{"info":{"some":"hello","other":"world"}}}`)
	return w, s
}

// expect compares what the other system has, and which generation the object says that it has.
func (s *service) expect(t *testing.T, w *sdktest.World, want string, generation int64) {
	t.Helper()
	var got struct{ Status info.Status }
	if w.Get(one, &got); s.stored["/info/default/one"] != want || got.Status.LastAppliedGeneration != generation {
		t.Errorf("the service has %q, and generation %d; want %q and %d", s.stored, got.Status.LastAppliedGeneration, want, generation)
	}
}

func TestInformationIsSentOnceForEachGeneration(t *testing.T) {
	w, s := newWorld(t)
	w.Reconcile(name).ExpectReady()
	s.expect(t, w, first, 1)
	for range 3 {
		w.Advance(time.Hour)
		w.Reconcile(name)
	}
	w.Change(one, `{"metadata":{"labels":{"a":"b"}},"status":{"other":1}}`)
	w.Reconcile(name)
	w.Restart() // the host does not remember that it was sent, the status does
	w.Reconcile(name).ExpectReady()
	if s.requests != 1 {
		t.Errorf("%d requests for one generation", s.requests)
	}
	w.Change(one, `{"spec":{"info":{"some":"bye"}}}`)
	w.Reconcile(name).ExpectReady()
	s.expect(t, w, strings.Replace(first, "hello", "bye", 1), 2)
}

func TestFailureThatMayBeOverIsTriedAgainAfterAMinute(t *testing.T) {
	cases := map[string]func(*sdktest.World, *service){
		"down": func(w *sdktest.World, _ *service) { w.ServeHTTP(nil) },
	}
	for _, status := range []int{408, 429, 500, 502, 503, 504} {
		cases[http.StatusText(status)] = func(_ *sdktest.World, s *service) { s.status = status }
	}
	for _, reason := range []string{sdk.HTTPTimeout, sdk.HTTPUnreachable, sdk.HTTPCircuitOpen, sdk.HTTPLimited} {
		cases[reason] = func(w *sdktest.World, _ *service) { w.FailHTTP(reason) }
	}
	for reason, broken := range cases {
		t.Run(reason, func(t *testing.T) {
			w, s := newWorld(t)
			broken(w, s)
			w.Reconcile(name).ExpectWaiting("Requeued").ExpectNext(time.Minute)
			w.FailHTTP("")
			w.ServeHTTP(s)
			s.status = 0
			w.Advance(time.Minute)
			w.Reconcile(name).ExpectReady()
			s.expect(t, w, first, 1)
		})
	}
}

func TestFailureThatStaysIsAnError(t *testing.T) {
	for reason, broken := range map[string]func(*sdktest.World, *service){
		"status 400":      func(_ *sdktest.World, s *service) { s.status = 400 },
		"bad certificate": func(w *sdktest.World, _ *service) { w.FailHTTP(sdk.HTTPTLS) },
	} {
		t.Run(reason, func(t *testing.T) {
			w, s := newWorld(t)
			broken(w, s)
			w.Reconcile(name).ExpectRetry("")
			s.expect(t, w, "", 0)
		})
	}
}

func TestDeletionIsToldToTheService(t *testing.T) {
	w, s := newWorld(t)
	w.Reconcile(name)
	s.status = 500
	w.Delete(one)
	if w.Reconcile(name); !w.Exists(one) {
		t.Error("the object is gone before the service was told")
	}
	s.status = 0
	w.Advance(time.Hour)
	if w.Reconcile(name); w.Exists(one) || len(s.stored) != 0 {
		t.Errorf("the service has %q", s.stored)
	}
}

// TestDeletionOfWhatTheServiceDoesNotHaveSucceeds: a run is repeated when the host was killed.
func TestDeletionOfWhatTheServiceDoesNotHaveSucceeds(t *testing.T) {
	w, s := newWorld(t)
	w.Reconcile(name)
	clear(s.stored)
	w.Delete(one)
	if w.Reconcile(name); w.Exists(one) {
		t.Error("the object is still there")
	}
}

func TestWithoutServiceNothingIsTried(t *testing.T) {
	w, s := newWorld(t)
	w.Configure(map[string]string{})
	w.Reconcile(name).ExpectStalled("NoService")
	if s.requests != 0 {
		t.Errorf("%d requests", s.requests)
	}
}
