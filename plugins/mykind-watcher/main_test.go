package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/plugins/mykind/info"
	"github.com/thole-dev/thole/sdk/sdktest"
)

const name = "default/one"

var one = info.Kind.Ref("default", "one")

// newWorld returns a world with one MyKind, and the requests that the other system gets. It answers
// with the status, 0 for 200.
func newWorld(t *testing.T) (w *sdktest.World, requests *[]string, status *int) {
	t.Helper()
	w, requests, status = sdktest.New(t), new([]string), new(int)
	w.ServeHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests = append(*requests, r.Method+" "+r.URL.Path)
		if *status != 0 {
			w.WriteHeader(*status)
		}
	}))
	w.Configure(map[string]string{"service": "https://info.example.com"})
	w.Create(`{"apiVersion":"example.thole.dev/v2","kind":"MyKind","metadata":{"namespace":"default","name":"one"},"spec":{"info":{"some":"hello","other":"world"}}}`)
	return w, requests, status
}

func expect(t *testing.T, requests []string, want ...string) {
	t.Helper()
	if got := strings.Join(requests, ", "); got != strings.Join(want, ", ") {
		t.Errorf("the service got %q, want %q", got, want)
	}
}

func TestEachGenerationIsSentOnce(t *testing.T) {
	w, requests, _ := newWorld(t)
	w.Reconcile(name).ExpectReady().ExpectLog("Add event")
	w.Change(one, `{"metadata":{"labels":{"a":"b"}}}`)
	w.Reconcile(name)
	w.Restart()
	w.Reconcile(name)
	expect(t, *requests, "PUT /info/default/one")
	w.Change(one, `{"spec":{"info":{"some":"bye"}}}`)
	w.Reconcile(name).ExpectReady().ExpectLog("Update event")
	expect(t, *requests, "PUT /info/default/one", "PUT /info/default/one")
}

// TestChangeWhileNoHostRanIsSent by Sync.
func TestChangeWhileNoHostRanIsSent(t *testing.T) {
	w, requests, _ := newWorld(t)
	w.Reconcile(name)
	w.Change(one, `{"spec":{"info":{"some":"unseen"}}}`)
	w.Restart()
	w.Reconcile(name).ExpectReady()
	expect(t, *requests, "PUT /info/default/one", "PUT /info/default/one")
}

// TestChangeThatWasTakenBackIsSent by Sync: the service may have stored it, although its answer says otherwise.
func TestChangeThatWasTakenBackIsSent(t *testing.T) {
	w, requests, status := newWorld(t)
	w.Reconcile(name).ExpectReady()
	*status = 500
	w.Change(one, `{"spec":{"info":{"some":"stored"}}}`)
	w.Reconcile(name).ExpectRetry("")
	w.Change(one, `{"spec":{"info":{"some":"hello"}}}`)
	*status = 0
	w.Restart()
	w.Reconcile(name).ExpectReady()
	expect(t, *requests, "PUT /info/default/one", "PUT /info/default/one", "PUT /info/default/one")
}

func TestErrorIsTriedAgainByThePolicy(t *testing.T) {
	w, requests, status := newWorld(t)
	*status = 500
	w.Reconcile(name).ExpectRetry("")
	w.Advance(time.Minute)
	*status = 0
	w.Reconcile(name).ExpectReady()
	expect(t, *requests, "PUT /info/default/one", "PUT /info/default/one")
}

func TestDeletionIsToldToTheService(t *testing.T) {
	w, requests, status := newWorld(t)
	w.Reconcile(name)
	w.Delete(one)
	*status = 503
	w.Reconcile(name)
	w.Advance(time.Minute)
	*status = 404 // it was told, and the answer was lost
	w.Reconcile(name).ExpectLog("Delete event")
	w.ExpectGone(one)
	expect(t, *requests, "PUT /info/default/one", "DELETE /info/default/one", "DELETE /info/default/one")
}
