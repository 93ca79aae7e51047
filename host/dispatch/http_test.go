package dispatch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/egress"
	"github.com/thole-dev/thole/host/sandbox"
)

// outside is a fixture whose controller may send requests to a server.
type outside struct {
	*fixture
	url string
}

func newOutside(t *testing.T, answer http.HandlerFunc) *outside {
	t.Helper()
	f := newFixture(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.note("%s %s", r.Method, r.URL.Path)
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	client := egress.New(egress.Config{Plugin: "p", Entries: egress.Entries{
		{Host: host, Scheme: "http", Methods: []string{"GET", "PUT"}, Addresses: []string{"loopback"}},
	}})
	t.Cleanup(client.Close)
	rev := f.c.Revision()
	rev.HTTP, rev.Controller.HTTP = client, []abi.HTTPHost{{Host: "*", Methods: []string{"GET", "PUT", "DELETE"}}}
	return &outside{f, server.URL}
}

func httpMessage(call *abi.HTTPCall) sandbox.ReadCall {
	return sandbox.ReadCall{Message: abi.EncodeHTTPCall(call), MaxReply: 2 * abi.MaxHTTPAnswer}
}

// sends makes the runs of the fixture send a request, and fail if it has no answer. The codes of the
// calls are returned.
func (o *outside) sends(call *abi.HTTPCall) (codes *[]int64) {
	codes = &[]int64{}
	o.reconcile = func(ctx context.Context, c sandbox.Call) (sandbox.Return, error) {
		reply, code := c.Host.HTTP(ctx, httpMessage(call))
		*codes = append(*codes, code)
		if code < 0 {
			return sandbox.Return{Code: abi.CodeRetry}, nil
		}
		answer, err := abi.DecodeHTTPReply(readText(reply))
		if err != nil || int64(reply.Size) != int64(len(abi.EncodeHTTPReply(answer))) {
			o.t.Errorf("the reply is %+v, %v", answer, err)
		}
		return returns(&abi.Result{Status: fmt.Appendf(nil, `{"answer":"%d %s"}`, answer.Status, answer.Body)})
	}
	return codes
}

func TestHTTPSendsARequest(t *testing.T) {
	o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(append([]byte("got "), body...))
	})
	o.put(aWidget)
	o.sends(&abi.HTTPCall{Method: "PUT", URL: o.url + "/a", Body: []byte("it")})
	o.run()
	o.expect("PUT /a", `status Ready=True/Succeeded patch={"answer":"418 got it"}`, "commit reads", "metric success ")
}

func TestHTTPOutsideOfManifestAndPolicyIsDenied(t *testing.T) {
	for name, c := range map[string]struct {
		call   abi.HTTPCall
		change func(*Revision)
		want   int64
	}{
		"no host in the manifest":      {abi.HTTPCall{URL: "/a"}, func(rev *Revision) { rev.HTTP = nil }, abi.CodeDenied},
		"other host in the manifest":   {abi.HTTPCall{URL: "/a"}, func(rev *Revision) { rev.Controller.HTTP[0].Host = "a" }, abi.CodeDenied},
		"other method in the manifest": {abi.HTTPCall{URL: "/a", Method: "POST"}, nil, abi.CodeDenied},
		"other method in the policy":   {abi.HTTPCall{URL: "/a", Method: "DELETE"}, nil, abi.CodeDenied},
		"no URL":                       {abi.HTTPCall{URL: ":"}, nil, abi.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t, nil)
			o.put(aWidget)
			if c.change != nil {
				c.change(o.c.Revision())
			}
			if strings.HasPrefix(c.call.URL, "/") {
				c.call.URL = o.url + c.call.URL
			}
			codes := o.sends(&c.call)
			if o.run(); !slices.Equal(*codes, []int64{c.want}) || slices.ContainsFunc(o.log, func(s string) bool { return strings.HasSuffix(s, "/a") }) {
				t.Errorf("codes %d, and %q", *codes, o.log)
			}
		})
	}
}

func TestLongAnswerIsTooLarge(t *testing.T) {
	o := newOutside(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, abi.MaxHTTPAnswer+1)) })
	o.put(aWidget)
	codes := o.sends(&abi.HTTPCall{URL: o.url})
	if o.run(); !slices.Equal(*codes, []int64{abi.CodeTooLarge}) {
		t.Errorf("codes %d", *codes)
	}
}

const freshWidget = `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"ns","name":"w","uid":"u1","generation":1,"resourceVersion":"1"},"spec":{"x":1}}`

// TestFinalizerPrecedesTheFirstRequest: the cleanup must be able to undo it.
func TestFinalizerPrecedesTheFirstRequest(t *testing.T) {
	o := newOutside(t, nil)
	o.put(freshWidget)
	o.sends(&abi.HTTPCall{Method: "PUT", URL: o.url + "/a"})
	o.run()
	const sent = `status Ready=True/Succeeded patch={"answer":"200 "}`
	o.expect("finalizer", "PUT /a", sent, "commit reads", "metric success ")
	o.run()
	o.expect("PUT /a", sent, "commit reads", "metric success ")
}

// TestNothingIsSentWithoutTheFinalizer: the run fails by the failure to add it, and not by what the
// plugin makes of that.
func TestNothingIsSentWithoutTheFinalizer(t *testing.T) {
	o := newOutside(t, nil)
	o.put(freshWidget)
	o.fail["finalizer"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: abi.VerbFinalizer, Class: abi.ClassDenied, Reason: "Forbidden", Message: "no right"}}
	twice := func(ctx context.Context, c sandbox.Call) (sandbox.Return, error) {
		for range 2 {
			if _, code := c.Host.HTTP(ctx, httpMessage(&abi.HTTPCall{Method: "PUT", URL: o.url + "/a"})); code != abi.CodeUnavailable {
				t.Errorf("code %d", code)
			}
		}
		return returns(&abi.Result{})
	}
	o.reconcile = twice
	o.run()
	o.expect("finalizer", "status Reconciling=True/ProgressingWithRetry Ready=False/Forbidden patch=", "commit reads", "event Warning Forbidden", "metric error denied")
	if failures := o.c.keys[testKey].left().previous.Failures; len(failures) != 1 || failures[0].Reason != "Forbidden" {
		t.Errorf("the next run is told of %+v", failures)
	}
	delete(o.fail, "finalizer")
	o.sends(&abi.HTTPCall{Method: "PUT", URL: o.url + "/a"})
	o.run()
	o.expect("finalizer", "PUT /a", `status Ready=True/Succeeded patch={"answer":"200 "}`, "commit reads", "metric success ")
}

// TestRunIsRepeatedWhenTheFinalizerIsPostponed, however the plugin has ended it: it was told that
// nothing was sent.
func TestRunIsRepeatedWhenTheFinalizerIsPostponed(t *testing.T) {
	o := newOutside(t, nil)
	o.put(freshWidget)
	o.fail["finalizer"] = &effect.Failure{EffectFailure: abi.EffectFailure{Verb: abi.VerbFinalizer, Reason: "TooManyRequests"}, Later: time.Hour}
	o.reconcile = func(ctx context.Context, c sandbox.Call) (sandbox.Return, error) {
		if _, code := c.Host.HTTP(ctx, httpMessage(&abi.HTTPCall{URL: o.url + "/a"})); code != abi.CodeUnavailable {
			t.Errorf("code %d", code)
		}
		return returns(&abi.Result{Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}}})
	}
	o.run()
	if next := o.done[0]; slices.Contains(o.log, "GET /a") || slices.ContainsFunc(o.log, func(s string) bool { return strings.HasPrefix(s, "status") || strings.HasPrefix(s, "intents") }) || next.After != time.Hour {
		t.Errorf("the run did %q, next %+v", o.log, next)
	}
	delete(o.fail, "finalizer")
	o.sends(&abi.HTTPCall{URL: o.url + "/a"})
	if o.run(); !slices.Contains(o.log, "GET /a") {
		t.Errorf("the runs did %q", o.log)
	}
}

// TestLeaseIsKeptWhileARequestIsOnItsWay: the next leader must not send before it was answered.
func TestLeaseIsKeptWhileARequestIsOnItsWay(t *testing.T) {
	l := &lease{leading: make(chan struct{})}
	l.lead()
	writes := func() (n int) { l.change(func() { n = l.writes }); return n }
	during := -1
	o := newOutside(t, func(http.ResponseWriter, *http.Request) { during = writes() })
	o.put(aWidget)
	o.c.Lease = l
	o.sends(&abi.HTTPCall{URL: o.url + "/a"})
	if o.run(); during != 1 || writes() != 0 {
		t.Errorf("%d writes during the request, %d after it", during, writes())
	}
}

// TestRequestThatWaitsIsNotSentWithoutLeadership: it was lost while the request waited for its turn, or
// was redirected.
func TestRequestThatWaitsIsNotSentWithoutLeadership(t *testing.T) {
	l := &lease{leading: make(chan struct{})}
	l.lead()
	o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/a" {
			l.change(func() { l.late = true })
			http.Redirect(w, r, "/b", http.StatusTemporaryRedirect)
		}
	})
	o.put(aWidget)
	o.c.Lease = l
	codes := o.sends(&abi.HTTPCall{Method: "PUT", URL: o.url + "/a"})
	sends := o.reconcile
	o.reconcile = func(ctx context.Context, c sandbox.Call) (sandbox.Return, error) {
		defer l.change(func() { l.late = false }) // else the worker waits for it
		return sends(ctx, c)
	}
	if o.run(); slices.Contains(o.log, "PUT /b") || !slices.Equal(*codes, []int64{abi.CodeUnavailable}) {
		t.Errorf("codes %d, the run did %q", *codes, o.log)
	}
}

// TestCleanupSendsRequests without adding the finalizer anew.
func TestCleanupSendsRequests(t *testing.T) {
	o := newOutside(t, nil)
	o.put(strings.Replace(aWidget, `"uid"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","uid"`, 1))
	o.sends(&abi.HTTPCall{Method: "PUT", URL: o.url + "/a"})
	o.run()
	if !slices.Contains(o.log, "PUT /a") || slices.Contains(o.log, "finalizer") {
		t.Errorf("the run did %q", o.log)
	}
}

// TestNothingIsSentForARunThatIsRepeated because something could not be read.
func TestNothingIsSentForARunThatIsRepeated(t *testing.T) {
	o := newOutside(t, nil)
	o.put(aWidget)
	o.listError = cache.ErrNotSynced
	o.follow()
	o.reconcile = func(ctx context.Context, c sandbox.Call) (sandbox.Return, error) {
		_, list := c.Host.List(ctx, encoded(someGadgets))
		_, sent := c.Host.HTTP(ctx, httpMessage(&abi.HTTPCall{URL: o.url + "/a"}))
		if list != abi.CodeUnavailable || sent != abi.CodeUnavailable {
			t.Errorf("codes %d and %d", list, sent)
		}
		return returns(&abi.Result{})
	}
	if o.run(); slices.Contains(o.log, "GET /a") {
		t.Errorf("the run did %q", o.log)
	}
}

// TestNothingIsSentWithoutLeadership: another replica may send for the object.
func TestNothingIsSentWithoutLeadership(t *testing.T) {
	o := newOutside(t, nil)
	o.put(aWidget)
	l := &lease{leading: make(chan struct{})}
	l.lead()
	o.c.Lease = l
	codes := &[]int64{}
	o.reconcile = func(ctx context.Context, c sandbox.Call) (sandbox.Return, error) {
		for _, late := range []bool{false, true} {
			l.change(func() { l.late = late })
			_, code := c.Host.HTTP(ctx, httpMessage(&abi.HTTPCall{URL: o.url + "/a"}))
			*codes = append(*codes, min(code, 0))
		}
		l.change(func() { l.late = false }) // else the worker waits for it
		return returns(&abi.Result{})
	}
	o.run()
	if n := strings.Count(strings.Join(o.log, "\n"), "GET /a"); !slices.Equal(*codes, []int64{0, abi.CodeUnavailable}) || n != 1 {
		t.Errorf("codes %d, %d requests", *codes, n)
	}
}
