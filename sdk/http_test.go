package sdk_test

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	contract "github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// The run of this file's controller is set by the tests.
var (
	callerKind = sdk.Kind{APIVersion: "http.example.com/v1", Kind: "Caller"}
	onCaller   func(*probe) error
)

func init() {
	sdk.Register(sdk.Controller[probeSpec, probeStatus]{
		Name: "caller", For: callerKind,
		HTTP:      []sdk.HTTPHost{{Host: "api.example.com", Methods: []string{"GET", "PUT"}}, {Host: "*.shop.example.com:8443"}},
		Reconcile: func(r *probe) (sdk.Action, error) { return sdk.AwaitChange(), onCaller(r) },
	})
}

func callerWorld(t *testing.T, handler http.HandlerFunc) *sdktest.World {
	w := sdktest.New(t, "caller")
	w.ServeHTTP(handler)
	w.Create(`{"apiVersion":"http.example.com/v1","kind":"Caller","metadata":{"namespace":"a","name":"one"},"spec":{"host":"h"}}`)
	return w
}

// send makes one run that sends a request.
func send(w *sdktest.World, request sdk.HTTPRequest) (answer *sdk.HTTPResponse, err error) {
	onCaller = func(r *probe) error {
		answer, err = r.HTTP(request)
		return nil
	}
	w.Reconcile("a/one")
	return answer, err
}

func TestHTTPSendsTheRequestAndReturnsTheAnswer(t *testing.T) {
	var got *http.Request
	var body []byte
	w := callerWorld(t, func(out http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		out.Header().Set("Etag", `"a1"`)
		out.WriteHeader(http.StatusNotFound)
		_, _ = out.Write([]byte("\x00gone"))
	})
	answer, err := send(w, sdk.HTTPRequest{
		Method: "PUT", URL: "https://api.example.com/sites/shop?a=b", Headers: []sdk.HTTPHeader{{Name: "X-One", Value: "1"}}, Body: []byte("\x00\xff"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Method != http.MethodPut || got.URL.String() != "https://api.example.com/sites/shop?a=b" || got.Header.Get("X-One") != "1" || string(body) != "\x00\xff" {
		t.Errorf("the server got %s %s %v %q", got.Method, got.URL, got.Header, body)
	}
	if answer.Status != 404 || answer.OK() || answer.Header("etag") != `"a1"` || answer.Header("other") != "" || string(answer.Body) != "\x00gone" {
		t.Errorf("the answer is %+v", answer)
	}
}

// TestHTTPFollowsRedirects, here with GET, which is the default.
func TestHTTPFollowsRedirects(t *testing.T) {
	w := callerWorld(t, func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(out, r, "https://eu.shop.example.com:8443/there", http.StatusSeeOther)
			return
		}
		_, _ = out.Write([]byte(r.Method))
	})
	answer, err := send(w, sdk.HTTPRequest{URL: "https://api.example.com/"})
	if err != nil || answer.URL != "https://eu.shop.example.com:8443/there" || string(answer.Body) != "GET" || !answer.OK() {
		t.Errorf("the answer is %+v, %v", answer, err)
	}
}

func TestPortOfTheSchemeIsNoOtherHost(t *testing.T) {
	w := callerWorld(t, func(http.ResponseWriter, *http.Request) {})
	for _, url := range []string{"https://api.example.com:443/", "http://API.example.com:80/"} {
		if _, err := send(w, sdk.HTTPRequest{URL: url}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestRedirectKeepsTheMethod of everything but a POST, as the host does.
func TestRedirectKeepsTheMethod(t *testing.T) {
	w := callerWorld(t, func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/" {
			http.Redirect(out, r, "/there", http.StatusMovedPermanently)
			return
		}
		_, _ = out.Write([]byte(r.Method + " " + string(body)))
	})
	answer, err := send(w, sdk.HTTPRequest{Method: "PUT", URL: "https://api.example.com/", Body: []byte("it")})
	if err != nil || string(answer.Body) != "PUT it" {
		t.Errorf("the answer is %+v, %v", answer, err)
	}
}

func TestHTTPIsDeniedOutsideOfTheManifest(t *testing.T) {
	w := callerWorld(t, func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(out, r, "https://other.example.com/", http.StatusFound)
			return
		}
		t.Errorf("%s %s was sent", r.Method, r.URL)
	})
	for _, request := range []sdk.HTTPRequest{
		{URL: "https://other.example.com/"},
		{URL: "https://api.example.com:8443/"},
		{URL: "https://api.example.com:80/"},
		{URL: "https://shop.example.com:8443/"},
		{URL: "https://a.shop.example.com/"},
		{URL: "https://a.shop.example.com:8443/", Method: "PUT"}, // GET alone is the default
		{URL: "https://api.example.com/", Method: "DELETE"},
		{URL: "https://api.example.com/away"},
	} {
		_, err := send(w, request)
		if !errors.Is(err, sdk.ErrDenied) || !strings.Contains(err.Error(), "denied by the manifest or by the policy of the plugin") {
			t.Errorf("%s %s: %v", request.Method, request.URL, err)
		}
	}
}

func TestInvalidHTTPRequestIsNotSent(t *testing.T) {
	w := callerWorld(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was sent", r.URL) })
	for _, request := range []sdk.HTTPRequest{
		{URL: ""},
		{URL: "/path"},
		{URL: "ftp://api.example.com/"},
		{URL: "https://"},
		{URL: "https://u:p@api.example.com/"},
		{URL: "https://api.example.com/", Method: "put"},
		{URL: "https://api.example.com/", Headers: []sdk.HTTPHeader{{Name: "A", Value: "b\r\nC: d"}}},
		{URL: "https://api.example.com/", Body: make([]byte, contract.MaxBody+1)},
	} {
		if _, err := send(w, request); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%.60q: %v", request.URL, err)
		}
	}
}

// TestRequestWithoutAnswerIsAnHTTPError, which does not have the query: it may be a secret, and the
// error is in the conditions of the object.
func TestRequestWithoutAnswerIsAnHTTPError(t *testing.T) {
	handled := 0
	w := callerWorld(t, func(http.ResponseWriter, *http.Request) { handled++ })
	for _, reason := range []string{sdk.HTTPTimeout, sdk.HTTPUnreachable, sdk.HTTPTLS, sdk.HTTPCircuitOpen} {
		w.FailHTTP(reason)
		_, err := send(w, sdk.HTTPRequest{URL: "https://api.example.com/x?token=secret"})
		failed, ok := errors.AsType[*sdk.HTTPError](err)
		if !ok || failed.Reason != reason || failed.Method != http.MethodGet || !strings.HasPrefix(err.Error(), "http GET https://api.example.com/x: "+reason+": ") {
			t.Errorf("%s: %v", reason, err)
		}
	}
	if handled != 1 {
		t.Errorf("%d requests were handled, want the one without an answer in time", handled)
	}
	w.FailHTTP("")
	w.ServeHTTP(nil)
	if _, err := send(w, sdk.HTTPRequest{URL: "https://api.example.com/"}); err == nil || !strings.Contains(err.Error(), sdk.HTTPUnreachable) {
		t.Errorf("without a handler: %v", err)
	}
}

func TestEndlessRedirectIsAnHTTPError(t *testing.T) {
	w := callerWorld(t, func(out http.ResponseWriter, r *http.Request) { http.Redirect(out, r, "/", http.StatusFound) })
	_, err := send(w, sdk.HTTPRequest{URL: "https://api.example.com/"})
	if failed, ok := errors.AsType[*sdk.HTTPError](err); !ok || failed.Reason != sdk.HTTPRedirects {
		t.Errorf("got %v", err)
	}
}

// TestStepSendsRequests, but for the last one.
func TestStepSendsRequests(t *testing.T) {
	var answer *sdk.HTTPResponse
	var err error
	w := probing(t, stepping(func(d *probeStep) {
		answer, err = d.HTTP(sdk.HTTPRequest{URL: "https://probe.example.com/"})
	}))
	w.ServeHTTP(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { _, _ = out.Write([]byte("up")) }))
	if w.Step("a/one").ExpectSuccess(); err != nil || string(answer.Body) != "up" {
		t.Errorf("the answer is %+v, %v", answer, err)
	}
	w.Delete(theProbe)
	if w.Reconcile("a/one"); !errors.Is(err, sdk.ErrDenied) {
		t.Errorf("in the last step: %+v, %v", answer, err)
	}
}

// TestIdempotencyKeyIsOfTheGeneration: the same in each run until the spec changes.
func TestIdempotencyKeyIsOfTheGeneration(t *testing.T) {
	w := callerWorld(t, nil)
	var keys []string
	onCaller = func(r *probe) error {
		keys = append(keys, r.IdempotencyKey("create"), r.IdempotencyKey("notify"))
		return nil
	}
	w.Reconcile("a/one")
	w.Advance(time.Hour)
	w.Reconcile("a/one")
	w.Change(callerKind.Ref("a", "one"), `{"spec":{"host":"i"}}`)
	w.Reconcile("a/one")
	want := []string{"uid-1-1-create", "uid-1-1-notify", "uid-1-1-create", "uid-1-1-notify", "uid-1-2-create", "uid-1-2-notify"}
	if !reflect.DeepEqual(keys, want) {
		t.Errorf("got %q, want %q", keys, want)
	}
}
