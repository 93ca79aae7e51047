package webhooks

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/certificates"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/sandbox"
)

// testController is the controller "c" of the plugin "p", for a.b/v1 K.
type testController struct {
	rev    *dispatch.Revision
	review func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error)
}

var kindK = abi.Kind{APIVersion: "a.b/v1", Kind: "K"}

func newTestController(review func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error)) *testController {
	all := []contract.Operation{contract.OperationCreate, contract.OperationUpdate, contract.OperationDelete}
	return &testController{rev: &dispatch.Revision{
		Controller: abi.Controller{Name: "c", For: abi.Followed{Kind: kindK}, Sections: []abi.Section{contract.Webhooks{Validate: all, Mutate: all[:2], Convert: true}.Section()}},
		Scopes:     scope.Controller{For: scope.All(kindK)},
	}, review: review}
}

func (c *testController) Offers(rev *dispatch.Revision) contract.Webhooks {
	return contract.Of(&rev.Controller)
}

func (c *testController) Revision() *dispatch.Revision { return c.rev }

func (c *testController) Call(ctx context.Context, v dispatch.ExportCall) (sandbox.Return, error) {
	parts, err := v.Begin(c.rev, time.Unix(0, 0), [32]byte{})
	if err != nil {
		return sandbox.Return{}, err
	}
	request := bytes.Join(parts, nil)
	code, output, err := c.review(ctx, v, request)
	return sandbox.Return{Code: code, Output: []byte(output)}, err
}

// testServer is a server with the plugin "p".
type testServer struct {
	*testing.T
	*Server
	client  *http.Client
	stop    func()     // and waits until it has stopped
	current Controller // that runs; nil: none

	mu       sync.Mutex
	webhooks *Settings
	known    Known // without Webhooks
	served   map[string]int
	refusals map[string]int
}

func (s *testServer) Served(plugin, review, result string, _ float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served[plugin+" "+review+" "+result]++
}

func (s *testServer) Refused(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals[reason]++
}

// servedAll returns how many requests were answered.
func (s *testServer) servedAll() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, more := range s.served {
		n += more
	}
	return n
}

// counted returns how often a request was refused for a reason.
func (s *testServer) counted(reason string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusals[reason]
}

func serveTest(t *testing.T, c Controller, change func(*Config)) *testServer {
	t.Helper()
	certificate, authority, err := certificates.SelfSigned([]string{"127.0.0.1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	s := &testServer{T: t, current: c, webhooks: NewSettings(), known: Known{State: "waiting"}, served: map[string]int{}, refusals: map[string]int{}}
	s.webhooks.Timeout.Duration = 27 * time.Second // nothing that does not state another one is to end by it
	cfg := Config{
		Address:     "127.0.0.1:0",
		Certificate: func() (*tls.Certificate, error) { return certificate, nil },
		Controller: func(_, plugin, controller string) Controller {
			s.mu.Lock()
			defer s.mu.Unlock()
			if plugin == "p" && controller == "c" {
				return s.current
			}
			return nil
		},
		Plugin: func(plugin string) (Known, bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			known := s.known
			known.Webhooks = s.webhooks
			return known, plugin == "p"
		},
		Metrics: s, Logger: hclog.NewNullLogger(), drain: time.Nanosecond, grace: 5 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	if s.Server, err = Listen(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Server.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		s.stop()
	})
	return s
}

// post sends a body, and returns the status and the text of the response.
func (s *testServer) post(path, body string) (int, string) {
	s.Helper()
	response, err := s.client.Post("https://"+s.Address()+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

func (s *testServer) admission(path, body string) *admissionv1.AdmissionResponse {
	s.Helper()
	status, text := s.post(path, body)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal([]byte(text), &review); err != nil || status != 200 || review.Response == nil {
		s.Fatalf("%d %s", status, text)
	}
	if review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" || review.Response.UID != "u-1" {
		s.Errorf("got %s", text)
	}
	return review.Response
}

const sample = `{"apiVersion":"a.b/v1","kind":"K","metadata":{"name":"n","namespace":"ns","uid":"u","managedFields":[{"manager":"m"}]},"spec":{"x":1}}`

func reviewOf(request string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":` + request + `}`
}

func create(more string) string {
	return reviewOf(`{"uid":"u-1","kind":{"group":"a.b","version":"v1","kind":"K"},"resource":{"group":"a.b","version":"v1","resource":"ks"},
		"namespace":"ns","name":"n","operation":"CREATE","userInfo":{"username":"jane","uid":"j","groups":["g"]},"object":` + sample + more + `}`)
}

func allow(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) {
	return abi.CodeOK, `{"allowed":true}`, nil
}

func TestReviewIsSentToThePlugin(t *testing.T) {
	var sent *contract.ReviewRequest
	var review dispatch.ExportCall
	s := serveTest(t, newTestController(func(_ context.Context, v dispatch.ExportCall, request []byte) (abi.Code, string, error) {
		var err error
		if sent, err = contract.DecodeReviewRequest(request); err != nil {
			t.Error(err)
		}
		review = v
		return abi.CodeOK, `{"allowed":true,"warnings":["w"],"auditAnnotations":[{"name":"a","value":"b"}]}`, nil
	}), nil)
	r := s.admission("/validate/p/c?timeout=10s", create(`,"dryRun":true,"options":{"kind":"CreateOptions"},"later":{}`))
	if !r.Allowed || r.Result != nil || len(r.Warnings) != 1 || r.Warnings[0] != "w" || r.AuditAnnotations["a"] != "b" {
		t.Errorf("response %+v", r)
	}
	if review.Export != "validate" || review.Object != (object.Key{Namespace: "ns", Name: "n"}) {
		t.Errorf("review %+v", review)
	}
	if sent.Controller != "c" || sent.Operation != "CREATE" || !sent.DryRun || sent.User.Name != "jane" || sent.User.UID != "j" || len(sent.User.Groups) != 1 || sent.Old != nil ||
		string(sent.Object) != `{"apiVersion":"a.b/v1","kind":"K","metadata":{"name":"n","namespace":"ns","uid":"u"},"spec":{"x":1}}` {
		t.Errorf("request %+v with %s", sent, sent.Object)
	}
	if s.served["p validate allowed"] != 1 {
		t.Errorf("served %v", s.served)
	}
}

func TestDeletionIsReviewedWithTheOldObject(t *testing.T) {
	s := serveTest(t, newTestController(func(_ context.Context, _ dispatch.ExportCall, request []byte) (abi.Code, string, error) {
		if sent, err := contract.DecodeReviewRequest(request); err != nil || sent.Object != nil || sent.Old == nil {
			t.Errorf("%s, %v", request, err)
		}
		return abi.CodeOK, `{"reason":"Conflict","message":"m"}`, nil
	}), nil)
	body := strings.Replace(strings.Replace(create(""), "CREATE", "DELETE", 1), `"object"`, `"object":null,"oldObject"`, 1)
	if r := s.admission("/validate/p/c", body); r.Allowed || r.Result.Code != 409 || r.Result.Reason != "Conflict" || r.Result.Message != "m" {
		t.Errorf("response %+v", r)
	}
}

func TestMutationIsAPatch(t *testing.T) {
	s := serveTest(t, newTestController(func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) {
		return abi.CodeOK, `{"allowed":true,"object":{"apiVersion":"a.b/v1","kind":"K","metadata":{"name":"n","namespace":"ns","uid":"u","labels":{"a":"b"}},"spec":{"x":2}}}`, nil
	}), nil)
	r := s.admission("/mutate/p/c", create(""))
	if !r.Allowed || r.PatchType == nil || *r.PatchType != admissionv1.PatchTypeJSONPatch || !strings.Contains(string(r.Patch), `{"op":"replace","path":"/spec/x","value":2}`) || strings.Contains(string(r.Patch), "managedFields") {
		t.Errorf("response %+v with %s", r, r.Patch)
	}
}

func TestFailedReviewIsAnsweredAsTheFailurePolicySays(t *testing.T) {
	for name, test := range map[string]struct {
		review func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error)
		want   string
	}{
		"error": {func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) {
			return 0, "", errors.New("trap\nx")
		}, "trap x"},
		"code": {func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) { return 1, "", nil }, "it returned 1 without a message"},
		"code with text": {func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) {
			return 2, `{"error":{"reason":"R","message":"m"}}`, nil
		}, "R: m"},
		"no result": {func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) {
			return 0, `{"allowed":tru`, nil
		}, "its result is not valid"},
		"unknown field": {func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) {
			return 0, `{"allow":true}`, nil
		}, "allow"},
		"other object": {func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) {
			return 0, `{"allowed":true,"object":{"apiVersion":"a.b/v1","kind":"K","metadata":{"name":"other","namespace":"ns","uid":"u"}}}`, nil
		}, `object.metadata.name: is "other", must be "n"`},
		"does not run": {nil, "it does not run: the plugin is waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			logged := &log{}
			s := serveTest(t, newTestController(test.review), func(c *Config) { c.Logger = hclog.New(&hclog.LoggerOptions{Output: logged}) })
			if test.review == nil {
				s.current = nil
			}
			r := s.admission("/mutate/p/c", create(""))
			if r.Allowed || r.Result.Code != 500 || !strings.Contains(r.Result.Message, `plugin "p" controller "c": mutate failed: `) || !strings.Contains(r.Result.Message, test.want) {
				t.Errorf("with Fail: %+v", r.Result)
			}
			s.webhooks.FailurePolicy = IgnoreFailure
			r = s.admission("/mutate/p/c", create(""))
			if !r.Allowed || r.Patch != nil || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], `plugin "p" controller "c": mutate failed: `) {
				t.Errorf("with Ignore: %+v", r)
			}
			if s.served["p mutate failed"] != 2 {
				t.Errorf("served %v", s.served)
			}
			if text := logged.String(); strings.Count(text, "mutate failed: ") != 2 || !strings.Contains(text, "[WARN]") {
				t.Errorf("logged %s", text)
			}
		})
	}
}

// log is written to by the goroutines of a server.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// What the sandbox has ended is logged with its stack, by dispatch; and nobody fills the log.
func TestFailedReviewsAreLoggedOnceAndNotAll(t *testing.T) {
	var fail error
	logged := &log{}
	s := serveTest(t, newTestController(func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) { return 0, "", fail }),
		func(c *Config) { c.Logger = hclog.New(&hclog.LoggerOptions{Output: logged}) })
	fail = &sandbox.Fault{Class: abi.ClassPanic, Message: "boom"}
	if r := s.admission("/mutate/p/c", create("")); !strings.HasSuffix(r.Result.Message, "boom; the log of the host has more") || logged.String() != "" {
		t.Errorf("%s, logged %s", r.Result.Message, logged)
	}
	fail = errors.New("again")
	for range 3 * failuresAtOnce {
		s.admission("/mutate/p/c", create(""))
	}
	if n := strings.Count(logged.String(), "again"); n < failuresAtOnce || n > 2*failuresAtOnce {
		t.Errorf("%d of %d failures were logged", n, 3*failuresAtOnce)
	}
}

func TestRequestThatIsNoReviewIsRefused(t *testing.T) {
	s := serveTest(t, newTestController(func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) {
		t.Error("the plugin was called")
		return 0, "", nil
	}), nil)
	replaced := func(old, by string) string { return strings.Replace(create(""), old, by, 1) }
	for name, test := range map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"no path":                      {"/p/c", create(""), 404, "/validate/PLUGIN/CONTROLLER"},
		"other plugin":                 {"/validate/other/c", create(""), 500, `plugin "other" controller "c": validate failed: it is not in the plugin directory`},
		"path traversal":               {"/validate/p/%2e%2e%2fc", create(""), 200, "does not run"},
		"not JSON":                     {"/validate/p/c", "review", 400, "not a review in JSON"},
		"an array":                     {"/validate/p/c", "[]", 400, "not a review in JSON"},
		"empty":                        {"/validate/p/c", "", 400, "not a review in JSON"},
		"two documents":                {"/validate/p/c", create("") + "{}", 400, "not a review in JSON"},
		"field twice":                  {"/validate/p/c", replaced(`"uid":"u-1"`, `"uid":"u-1","uid":"u-2"`), 400, "duplicate"},
		"other kind":                   {"/validate/p/c", replaced("AdmissionReview", "ConversionReview"), 400, "not an AdmissionReview"},
		"other version":                {"/validate/p/c", replaced("admission.k8s.io/v1", "admission.k8s.io/v1beta1"), 400, "v1beta1"},
		"no request":                   {"/validate/p/c", reviewOf("null"), 400, "has no request"},
		"no uid":                       {"/validate/p/c", replaced("u-1", ""), 400, "no uid"},
		"no object":                    {"/validate/p/c", replaced(sample, "null"), 400, "request.object is required"},
		"object is no object":          {"/validate/p/c", replaced(sample, `"x"`), 400, "request.object"},
		"object without kind":          {"/validate/p/c", replaced(`{"apiVersion":"a.b/v1","kind":"K",`, `{`), 400, "apiVersion and kind are required"},
		"no old object":                {"/validate/p/c", replaced("CREATE", "UPDATE"), 400, "request.oldObject is required"},
		"unknown operation":            {"/validate/p/c", replaced(`"CREATE"`, `"CREATE\u0000"`), 400, "request.operation"},
		"operation in lower case":      {"/validate/p/c", replaced("CREATE", "create"), 400, `request.operation is "create", must be one of ["CREATE" "UPDATE" "DELETE"]`},
		"operation of a rule":          {"/validate/p/c", replaced("CREATE", "*"), 400, `request.operation is "*"`},
		"operation nobody reviews":     {"/validate/p/c", replaced("CREATE", "CONNECT"), 400, `request.operation is "CONNECT"`},
		"no operation":                 {"/validate/p/c", replaced("CREATE", ""), 400, `request.operation is ""`},
		"other object kind":            {"/validate/p/c", replaced(`{"apiVersion":"a.b/v1","kind":"K",`, `{"apiVersion":"v1","kind":"Secret",`), 500, "has an object of"},
		"kind nobody offers":           {"/validate/p/c", replaced(`"kind":{"group":"a.b","version":"v1"`, `"kind":{"group":"a.b","version":"v2"`), 500, "it reviews a.b/v1 K"},
		"subresource":                  {"/validate/p/c", create(`,"subResource":"status"`), 500, "no subresource"},
		"conversion of admission":      {"/convert/p/c", create(""), 400, "not a ConversionReview"},
		"conversion to another group":  {"/convert/p/c", conversion("x.y/v1", sample), 500, "not to"},
		"conversion without a version": {"/convert/p/c", conversion("", sample), 400, "no desiredAPIVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := s.post(test.path, test.body)
			if status != test.status || !strings.Contains(text, test.want) {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		request, _ := http.NewRequest(method, "https://"+s.Address()+"/validate/p/c", strings.NewReader(create("")))
		response, err := s.client.Do(request)
		if err != nil || response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %v, %v", method, response, err)
			continue
		}
		response.Body.Close()
	}
	response, err := s.client.Post("https://"+s.Address()+"/validate/p/c", "text/plain", strings.NewReader(create("")))
	if err != nil || response.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("content type: %v, %v", response, err)
	}
	response.Body.Close()
	for _, name := range []string{"other validate refused", "other validate failed"} {
		if s.served[name] != 0 {
			t.Error("there are metrics of a plugin that is not known")
		}
	}
	if s.counted(refusedPath) == 0 || s.counted(refusedBody) != 4 {
		t.Errorf("refused %v", s.refusals)
	}
}

// asks returns a function that gives a revision other webhooks.
func asks(w contract.Webhooks) func(*dispatch.Revision) {
	return func(rev *dispatch.Revision) { rev.Controller.Sections = []abi.Section{w.Section()} }
}

// A webhook is changed a moment after the revision that it is about.
func TestWhatTheRunningRevisionDoesNotReviewIsAllowed(t *testing.T) {
	deletion := strings.Replace(strings.Replace(create(""), "CREATE", "DELETE", 1), `"object"`, `"oldObject"`, 1)
	for name, test := range map[string]struct {
		path, body string
		change     func(*dispatch.Revision)
	}{
		"operation to validate": {"/validate/p/c", create(""), asks(contract.Webhooks{Validate: []contract.Operation{contract.OperationUpdate}})},
		"operation to mutate":   {"/mutate/p/c", deletion, func(*dispatch.Revision) {}},
		"nothing":               {"/mutate/p/c", create(""), asks(contract.Webhooks{Convert: true})},
		"namespace":             {"/validate/p/c", create(""), func(rev *dispatch.Revision) { rev.Scopes.For.Namespaces = []string{"other"} }},
	} {
		t.Run(name, func(t *testing.T) {
			var c *testController
			var swapped atomic.Bool
			c = newTestController(func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) {
				if swapped.Load() {
					t.Error("the plugin was called")
				}
				next := *c.rev
				test.change(&next)
				c.rev = &next
				return 0, "", errors.New("it was replaced")
			})
			s := serveTest(t, c, nil)
			for range 2 { // first it is replaced during the review
				if r := s.admission(test.path, test.body); !r.Allowed || r.Patch != nil || len(r.Warnings) != 0 {
					t.Errorf("response %+v", r)
				}
				swapped.Store(true)
			}
		})
	}
}

func TestControllerThatIsStartedInAMomentIsWaitedFor(t *testing.T) {
	for name, known := range map[string]Known{"loading": {Loading: true}, "replaced": {Controllers: []string{"c"}}} {
		t.Run(name, func(t *testing.T) {
			s := serveTest(t, nil, nil)
			s.known = known
			later := time.AfterFunc(5*swapPoll, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.current = newTestController(toVersionOrAllow)
			})
			defer later.Stop()
			if r := s.admission("/validate/p/c", create("")); !r.Allowed {
				t.Errorf("response %+v", r.Result)
			}
			s.mu.Lock()
			s.current = nil
			s.mu.Unlock()
			later.Reset(5 * swapPoll)
			if r := s.conversion(conversion("a.b/v2", sample)); r.Result.Status != "Success" {
				t.Errorf("response %+v", r.Result)
			}
		})
	}
}

func toVersionOrAllow(ctx context.Context, v dispatch.ExportCall, request []byte) (abi.Code, string, error) {
	if v.Export == contract.ExportConvert {
		return toVersion(ctx, v, request)
	}
	return allow(ctx, v, request)
}

func TestLargeReviewIsRefusedBeforeItIsRead(t *testing.T) {
	s := serveTest(t, newTestController(allow), nil)
	status, text := s.post("/validate/p/c", create(`,"x":"`+strings.Repeat("x", maxBytes)+`"`))
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(text, "larger than 8 MiB") {
		t.Errorf("%d %s", status, text)
	}
	// Without a length that could be known before.
	request, _ := http.NewRequest(http.MethodPost, "https://"+s.Address()+"/validate/p/c", io.LimitReader(zeros{}, 2*maxBytes))
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatalf("%v, %v", response, err)
	}
	response.Body.Close()
	if got := s.admission("/validate/p/c", create(`,"x":"`+strings.Repeat("x", maxBytes-4096)+`"`)); !got.Allowed {
		t.Error("a review of nearly 8 MiB was refused")
	}
	if !s.bodies.reviews.TryAcquire(maxBytesInFlight) {
		t.Error("room of requests that have ended is not free")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Conversions, for which no client needs a certificate, keep no reviews out.
func TestRequestsTogetherAreBounded(t *testing.T) {
	s := serveTest(t, newTestController(toVersionOrAllow), nil)
	review, converted := create(""), conversion("a.b/v2", sample)
	for name, test := range map[string]struct {
		room                 *semaphore.Weighted
		path, body           string
		otherPath, otherBody string
	}{
		"reviews":     {s.bodies.reviews, "/validate/p/c", review, "/convert/p/c", converted},
		"conversions": {s.bodies.conversions, "/convert/p/c", converted, "/validate/p/c", review},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.counted(refusedBusy)
			test.room.TryAcquire(maxBytesInFlight - 100)
			if status, text := s.post(test.path, test.body); status != http.StatusServiceUnavailable || !strings.Contains(text, "at once") || s.counted(refusedBusy) != before+1 {
				t.Errorf("%d %s", status, text)
			}
			if status, text := s.post(test.otherPath, test.otherBody); status != http.StatusOK {
				t.Errorf("the other kind: %d %s", status, text)
			}
			test.room.Release(maxBytesInFlight - 100)
			if status, text := s.post(test.path, test.body); status != http.StatusOK {
				t.Errorf("a later request was refused: %d %s", status, text)
			}
		})
	}
}

func TestBodyForNoControllerIsNotRead(t *testing.T) {
	s := serveTest(t, newTestController(allow), func(c *Config) { c.bodyTimeout = 2 * await.Limit })
	s.known.Controllers = []string{"c"}
	for path, want := range map[string]string{
		"/convert/none/c":  `plugin "none" controller "c": convert failed: it is not in the plugin directory`,
		"/convert/p/none":  `plugin "p" controller "none": convert failed: the plugin has no such controller`,
		"/validate/p/none": `plugin "p" controller "none": validate failed: the plugin has no such controller`,
	} {
		t.Run(path, func(t *testing.T) {
			c, err := tls.Dial("tcp", s.Address(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(await.Limit)) // less than the time for a body
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", path, maxBytes)
			if text, err := io.ReadAll(c); err != nil || !strings.Contains(string(text), "HTTP/1.1 500") || !strings.Contains(string(text), want) {
				t.Errorf("%s, %v", text, err)
			}
		})
	}
	if s.servedAll() != 0 || s.counted(refusedPath) != 3 {
		t.Errorf("served %v, refused %v", s.served, s.refusals)
	}
}

// As the API server does with webhooks that are not on localhost: further connections lead to another
// replica, but those that are open are used again.
func TestStopFailsNoRequestOfHTTP1(t *testing.T) {
	for i := range 5 {
		t.Run(fmt.Sprintf("round %d", i), stopFailsNoRequestOfHTTP1)
	}
}

func stopFailsNoRequestOfHTTP1(t *testing.T) {
	t.Parallel()
	byDefault := func(c *Config) { c.drain = 0 }
	stopped, other := serveTest(t, newTestController(allow), byDefault), serveTest(t, newTestController(allow), nil)
	var stopping atomic.Bool
	end := make(chan struct{})
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			// Of its own: a connection that several share may have no request for longer than the
			// server waits.
			client := http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}},
				DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					if stopping.Load() {
						return new(net.Dialer).DialContext(ctx, network, other.Address())
					}
					return new(net.Dialer).DialContext(ctx, network, stopped.Address())
				},
			}}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-end:
					return
				case <-time.After(time.Millisecond):
				}
				response, err := client.Post("https://service/validate/p/c", "application/json", strings.NewReader(create("")))
				if err != nil {
					t.Error(err)
					continue
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	await.Until(t, "there are requests", func() bool { return stopped.servedAll() > 100 })
	stopping.Store(true)
	stopped.stop()
	await.Until(t, "the other replica answers", func() bool { return other.servedAll() > 100 })
	close(end)
	clients.Wait()
}

// A client that announces much and sends little holds no more room than what it has sent, and is
// gone after the time for a request.
func TestSlowClientHoldsNothing(t *testing.T) {
	s := serveTest(t, newTestController(allow), func(c *Config) { c.bodyTimeout = 5 * time.Second }) // also for a handshake of TLS
	var open []net.Conn
	for range 20 {
		c, err := tls.Dial("tcp", s.Address(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /validate/p/c HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", maxBytes)
		open = append(open, c)
	}
	if !s.admission("/validate/p/c", create("")).Allowed {
		t.Error("another client was refused")
	}
	for _, c := range open {
		c.SetReadDeadline(time.Now().Add(await.Limit))
		if text, err := io.ReadAll(c); err != nil || !strings.Contains(string(text), "HTTP/1.1 400") {
			t.Fatalf("%s, %v", text, err)
		}
	}
}

// inFlight returns how many calls of the plugin are in flight or wait for a place.
func (s *testServer) inFlight() int {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	if p := s.calls.byPlugin["p"]; p != nil {
		return p.n
	}
	return 0
}

func TestReviewsInFlightAreBounded(t *testing.T) {
	release := make(chan struct{})
	var most, now atomic.Int64
	s := serveTest(t, newTestController(func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		<-release
		return abi.CodeOK, `{"allowed":true}`, nil
	}), nil)
	var waiting sync.WaitGroup
	more := func(n, until int) {
		for range n {
			waiting.Go(func() {
				if r := s.admission("/validate/p/c", create("")); !r.Allowed {
					t.Errorf("response %+v", r.Result)
				}
			})
		}
		await.Until(t, "they are in flight or wait", func() bool { return s.inFlight() == until })
	}
	more(maxPluginCalls, maxPluginCalls)
	if r := s.admission("/validate/p/c?timeout=1s", create("")); r.Allowed || !strings.Contains(r.Result.Message, "128 of its reviews are in flight, which") {
		t.Errorf("response %+v", r)
	}
	more(maxWaiting, maxPluginCalls+maxWaiting)
	if r := s.admission("/validate/p/c", create("")); r.Allowed || !strings.Contains(r.Result.Message, "256 of its reviews are in flight or wait") {
		t.Errorf("response %+v", r)
	}
	close(release)
	waiting.Wait()
	if most.Load() > maxPluginCalls || s.inFlight() != 0 || !s.calls.all.TryAcquire(maxCalls) {
		t.Errorf("%d at once, and %d in flight after all have ended", most.Load(), s.inFlight())
	}
}

func TestReviewThatTakesTooLongIsAnswered(t *testing.T) {
	began := time.Now()
	s := serveTest(t, newTestController(func(ctx context.Context, _ dispatch.ExportCall, _ []byte) (abi.Code, string, error) {
		deadline, ok := ctx.Deadline()
		if left := time.Until(deadline); !ok || left > 500*time.Millisecond || deadline.Sub(began) < 500*time.Millisecond {
			t.Errorf("%s are left, want half a second less than the API server waits", left)
		}
		<-ctx.Done()
		return 0, "", context.Cause(ctx)
	}), nil)
	r := s.admission("/validate/p/c?timeout=1s", create(""))
	if r.Allowed || !strings.Contains(r.Result.Message, "in the time that the API server waits") {
		t.Errorf("response %+v", r.Result)
	}
}

func TestCallThatMeetsAClosedGuestIsMadeOnTheNextController(t *testing.T) {
	s := serveTest(t, nil, nil)
	next := newTestController(allow)
	s.current = newTestController(func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) {
		go func() {
			s.mu.Lock()
			s.current = nil
			s.mu.Unlock()
			<-time.After(5 * swapPoll)
			s.mu.Lock()
			s.current = next
			s.mu.Unlock()
		}()
		return 0, "", fmt.Errorf("call: %w", sandbox.ErrClosed)
	})
	if r := s.admission("/validate/p/c", create("")); !r.Allowed {
		t.Errorf("response %+v", r.Result)
	}
}

func conversion(version string, objects ...string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u-1","desiredAPIVersion":"` + version + `","objects":[` + strings.Join(objects, ",") + `]}}`
}

func (s *testServer) conversion(body string) *apiextensionsv1.ConversionResponse {
	s.Helper()
	status, text := s.post("/convert/p/c", body)
	var review apiextensionsv1.ConversionReview
	if err := json.Unmarshal([]byte(text), &review); err != nil || status != 200 || review.Response == nil || review.Response.UID != "u-1" {
		s.Fatalf("%d %s", status, text)
	}
	return review.Response
}

// toVersion converts an object as asked.
func toVersion(_ context.Context, _ dispatch.ExportCall, request []byte) (abi.Code, string, error) {
	sent, err := contract.DecodeConvertRequest(request)
	if err != nil {
		return 0, "", err
	}
	if bytes.Contains(sent.Object, []byte(`"bad"`)) {
		return abi.CodeStalled, `{"error":{"message":"it is bad"}}`, nil
	}
	return abi.CodeOK, `{"object":` + strings.Replace(string(sent.Object), `"a.b/v1"`, `"`+sent.APIVersion+`"`, 1) + `}`, nil
}

func TestObjectsOfAReviewAreConverted(t *testing.T) {
	s := serveTest(t, newTestController(toVersion), nil)
	var objects []string
	for i := range 50 {
		objects = append(objects, strings.Replace(sample, `"n"`, fmt.Sprintf(`"n-%d"`, i), 1))
	}
	applied := strings.Replace(sample, `"uid"`, `"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"},"uid"`, 1)
	other := strings.Replace(sample, "a.b/v1", "a.b/v2", 1)
	r := s.conversion(conversion("a.b/v2", append(objects, applied, other)...))
	if r.Result.Status != "Success" || len(r.ConvertedObjects) != 52 {
		t.Fatalf("response %+v", r.Result)
	}
	for i, o := range r.ConvertedObjects[:50] {
		if text := string(o.Raw); !strings.Contains(text, fmt.Sprintf(`"n-%d"`, i)) || !strings.Contains(text, "a.b/v2") {
			t.Errorf("object %d: %s", i, text)
		}
	}
	if text := string(r.ConvertedObjects[50].Raw); !strings.Contains(text, `"kubectl.kubernetes.io/last-applied-configuration":"{}"`) {
		t.Errorf("the annotation is lost: %s", text)
	}
	if s.served["p convert converted"] != 1 {
		t.Errorf("served %v", s.served)
	}
}

// replacedController runs another revision by the time that a call begins.
type replacedController struct {
	*testController
	next *dispatch.Revision
}

func (c *replacedController) Call(ctx context.Context, v dispatch.ExportCall) (sandbox.Return, error) {
	return (&testController{rev: c.next, review: c.review}).Call(ctx, v)
}

func TestARevisionWithoutTheExportIsNotCalled(t *testing.T) {
	c := &replacedController{testController: newTestController(func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) {
		t.Error("the guest was called")
		return 0, "", nil
	})}
	next := *c.rev
	next.Controller.Sections = []abi.Section{contract.Webhooks{Validate: []contract.Operation{contract.OperationCreate}}.Section()}
	c.next = &next
	s := serveTest(t, c, nil)
	if r := s.conversion(conversion("a.b/v2", sample)); r.Result.Status != "Failure" || !strings.Contains(r.Result.Message, "the running revision does not have it: remove the webhook, or build the plugin with the export convert") {
		t.Errorf("response %+v", r)
	}
}

func TestConversionThatFailsNamesTheObject(t *testing.T) {
	s := serveTest(t, newTestController(toVersion), nil)
	s.webhooks.FailurePolicy = IgnoreFailure // there is none for conversions
	bad := strings.Replace(sample, `"n"`, `"bad"`, 1)
	for name, test := range map[string]struct{ body, want string }{
		"plugin":                    {conversion("a.b/v2", sample, bad), `plugin "p" controller "c": convert failed: a.b/v1 K ns/bad to a.b/v2: it is bad`},
		"no object":                 {conversion("a.b/v2", `"x"`), "parse object"},
		"other kind":                {conversion("a.b/v2", strings.Replace(sample, `"K"`, `"L"`, 1)), "it converts a.b/v1 K"},
		"other kind in the version": {conversion("a.b/v1", strings.Replace(sample, `"K"`, `"L"`, 1)), "it converts a.b/v1 K"},
	} {
		t.Run(name, func(t *testing.T) {
			if r := s.conversion(test.body); r.Result.Status != "Failure" || len(r.ConvertedObjects) != 0 || !strings.Contains(r.Result.Message, test.want) {
				t.Errorf("response %+v", r)
			}
		})
	}
	s.current = nil
	if r := s.conversion(conversion("a.b/v2", sample)); r.Result.Status != "Failure" || !strings.Contains(r.Result.Message, "it does not run") {
		t.Errorf("response %+v", r)
	}
	status, text := s.post("/convert/gone/c", conversion("a.b/v2", sample))
	if status != 500 || !strings.Contains(text, "not in the plugin directory") || s.served["gone convert failed"] != 0 {
		t.Errorf("%d %s", status, text)
	}
}

// An object may become as large as a result may be, but not all of a request at once.
func TestResultsOfAConversionAreBounded(t *testing.T) {
	pad := strings.Repeat("x", 1400<<10)
	s := serveTest(t, newTestController(func(_ context.Context, _ dispatch.ExportCall, request []byte) (abi.Code, string, error) {
		sent, err := contract.DecodeConvertRequest(request)
		if err != nil {
			return 0, "", err
		}
		return abi.CodeOK, `{"object":` + strings.NewReplacer(`"a.b/v1"`, `"a.b/v2"`, `"x":1`, `"x":"`+pad+`"`).Replace(string(sent.Object)) + `}`, nil
	}), nil)
	fits := maxConverted / len(pad)
	of := func(n int) string { return conversion("a.b/v2", slices.Repeat([]string{sample}, n)...) }
	if r := s.conversion(of(fits)); r.Result.Status != "Success" || len(r.ConvertedObjects) != fits {
		t.Errorf("response %+v", r.Result)
	}
	if r := s.conversion(of(2 * fits)); r.Result.Status != "Failure" || !strings.Contains(r.Result.Message, `plugin "p" controller "c": convert failed: the objects of the request have more than 16 MiB when they are converted: list fewer at once`) {
		t.Errorf("response %+v", r.Result)
	}
	s.bodies.conversions.TryAcquire(maxBytesInFlight - 1<<20)
	if r := s.conversion(of(1)); r.Result.Status != "Failure" || !strings.Contains(r.Result.Message, "at once; try again") {
		t.Errorf("response %+v", r.Result)
	}
	if !s.bodies.conversions.TryAcquire(1 << 20) {
		t.Error("room of requests that have ended is not free")
	}
}

func TestConvertedObjectMustBeTheSame(t *testing.T) {
	for name, result := range map[string]string{
		"version":   strings.Replace(sample, "a.b/v1", "a.b/v3", 1),
		"name":      strings.Replace(strings.Replace(sample, "a.b/v1", "a.b/v2", 1), `"n"`, `"m"`, 1),
		"namespace": strings.Replace(strings.Replace(sample, "a.b/v1", "a.b/v2", 1), `"ns"`, `"other"`, 1),
		"uid":       strings.Replace(strings.Replace(sample, "a.b/v1", "a.b/v2", 1), `"uid":"u"`, `"uid":"v"`, 1),
		"nothing":   "",
	} {
		t.Run(name, func(t *testing.T) {
			s := serveTest(t, newTestController(func(context.Context, dispatch.ExportCall, []byte) (abi.Code, string, error) {
				if result == "" {
					return abi.CodeOK, "{}", nil
				}
				return abi.CodeOK, `{"object":` + result + `}`, nil
			}), nil)
			if r := s.conversion(conversion("a.b/v2", sample)); r.Result.Status != "Failure" || !strings.Contains(r.Result.Message, "its result is not valid") {
				t.Errorf("response %+v", r)
			}
		})
	}
}

// authority signs certificates of clients.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func inPEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, _ := x509.ParseCertificate(der)
	return &authority{certificate, key}
}

// client returns a certificate of a client.
func (a *authority) client(t *testing.T, name string, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestWhoHasNoCertificateOfTheAuthorityMayAskForNoReview(t *testing.T) {
	good, other := newAuthority(t), newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, inPEM(good.certificate), 0o644); err != nil {
		t.Fatal(err)
	}
	clients, err := NewClients(file, []string{"apiserver"})
	if err != nil {
		t.Fatal(err)
	}
	s := serveTest(t, newTestController(allow), func(c *Config) { c.Clients = clients })
	as := func(certificates ...tls.Certificate) (int, string) {
		t.Helper()
		s.client.CloseIdleConnections()
		s.client.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(certificates) == 0 {
				return &tls.Certificate{}, nil
			}
			return &certificates[0], nil
		}
		return s.post("/validate/p/c", create(""))
	}
	for name, test := range map[string]struct {
		certificates []tls.Certificate
		want         string
	}{
		"none":              {nil, "has presented no certificate"},
		"of another":        {[]tls.Certificate{other.client(t, "apiserver", nil)}, "does not accept the client's certificate"},
		"expired":           {[]tls.Certificate{good.client(t, "apiserver", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })}, "expired"},
		"of a server":       {[]tls.Certificate{good.client(t, "apiserver", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })}, "incompatible key usage"},
		"with another name": {[]tls.Certificate{good.client(t, "jane", nil)}, "is not one of webhooks.clientNames"},
	} {
		t.Run(name, func(t *testing.T) {
			if status, text := as(test.certificates...); status != http.StatusForbidden || !strings.Contains(text, test.want) {
				t.Errorf("%d %s", status, text)
			}
			if status, text := s.post("/mutate/p/c", create("")); status != http.StatusForbidden || !strings.Contains(text, test.want) {
				t.Errorf("mutate: %d %s", status, text)
			}
		})
	}
	if s.counted(refusedClient) != 10 {
		t.Errorf("refused %v", s.refusals)
	}
	for range 2 { // the second time it is known
		if status, text := as(good.client(t, "apiserver", nil)); status != 200 {
			t.Errorf("%d %s", status, text)
		}
	}
	as() // the API server presents none for conversions
	if status, text := s.post("/convert/p/c", conversion("a.b/v1", sample)); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

func TestClientAuthorityMustHaveCertificates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	if _, err := NewClients(file, nil); err == nil || !strings.Contains(err.Error(), "webhooks.clientCA") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := NewClients(file, nil); err == nil || !strings.Contains(err.Error(), "has no certificate in PEM") {
		t.Errorf("got %v", err)
	}
}

func FuzzAdmissionReview(f *testing.F) {
	f.Add([]byte(create("")))
	f.Add([]byte(strings.Replace(create(""), "CREATE", "UPDATE", 1)))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"\ud800","object":{}}}`))
	c := newTestController(allow)
	f.Fuzz(func(t *testing.T, body []byte) {
		v := &review{request: &request{export: contract.ExportMutate, plugin: "p", controller: "c", body: body}}
		if v.decode() != nil || v.check(c.rev) != nil || !v.isReviewedBy(c) {
			return
		}
		parts, _ := v.begin(c.rev, time.Unix(0, 0), [32]byte{}) // which fails never
		text := bytes.Join(parts, nil)
		if _, err := contract.DecodeReviewRequest(text); err != nil {
			t.Errorf("the guest cannot decode the request: %v\n%s", err, text)
		}
		v.take(sandbox.Return{Output: []byte(`{"allowed":true}`)})
		if v.err != nil {
			t.Error(v.err)
		}
		if _, err := encode(v.answer().body); err != nil {
			t.Error(err)
		}
	})
}
