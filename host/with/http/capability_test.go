package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/telemetry"
	"github.com/thole-dev/thole/host/with/http/egress"
)

// sender is the capability with one plugin, of one controller.
type sender struct {
	t       *testing.T
	metrics *telemetry.Metrics
	part    runner.PluginPart
	send    func(context.Context, *dispatch.ImportCall) ([]byte, int64)
	url     string // of a server, which the policy allows with GET and PUT
	host    string
	log     []string // of warnings
	events  []events.Event
}

func newSender(t *testing.T, answer http.HandlerFunc) *sender {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	return newSenderTo(t, server)
}

func newSenderTo(t *testing.T, server *httptest.Server) *sender {
	t.Helper()
	server.Start()
	t.Cleanup(server.Close)
	s := &sender{t: t, metrics: telemetry.NewMetrics(), url: server.URL, host: strings.TrimPrefix(server.URL, "http://")}
	s.part = Capability().New(runner.Environment{Metrics: s.metrics, Logger: hclog.NewNullLogger(), Events: events.Func(func(e events.Event) { s.events = append(s.events, e) })}).Plugin("p")
	s.send = s.part.Controller(nil).Imports[contract.Import]
	t.Cleanup(s.part.Stop)
	return s
}

// policy returns one that allows requests to the server.
func (s *sender) policy() config.Policy {
	return config.Policy{Sections: map[string]config.PolicySection{contract.Name: &Settings{Hosts: egress.Entries{
		{Host: s.host, Scheme: "http", Methods: []string{"GET", "PUT"}, Addresses: []string{"loopback"}},
	}}}}
}

// revision is a revision that runs.
type revision struct {
	s          *sender
	controller abi.Controller
	kept       any
	begin      func(context.Context) (end func(), code int64)
	mayGoOn    func() error
}

// start makes a revision run whose controller declares hosts.
func (s *sender) start(policy config.Policy, hosts ...contract.Host) *revision {
	s.t.Helper()
	c := abi.Controller{Name: "c"}
	if len(hosts) > 0 {
		c.Sections = []abi.Section{{Name: contract.Name, Value: contract.Encode(hosts)}}
	}
	use, err := s.part.Prepare(s.t.Context(), &runner.Revision{
		Revision: events.Revision{Plugin: "p", Number: 1}, Policy: policy, Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{c}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return &revision{
		s: s, controller: c, kept: use(runner.Running{Logger: func(l hclog.Logger) hclog.Logger { return l }}),
		begin: func(context.Context) (func(), int64) { return func() {}, 0 }, mayGoOn: func() error { return nil },
	}
}

// call sends a request in a run of the revision.
func (r *revision) call(call *contract.Call) (*contract.Reply, int64) {
	r.s.t.Helper()
	reply, code := r.s.send(r.s.t.Context(), &dispatch.ImportCall{
		ReadCall: sandbox.ReadCall{Message: contract.EncodeCall(call), MaxReply: 2 * contract.MaxAnswer},
		Revision: &dispatch.Revision{Controller: r.controller}, Run: events.Run{Plugin: "p", Object: "ns/w"}, Kept: r.kept,
		BeginEffect: r.begin, MayGoOn: r.mayGoOn,
		Warn: func(message string, args ...any) { r.s.log = append(r.s.log, message+fmt.Sprint(args...)) },
	})
	if code < 0 {
		return nil, code
	}
	answer, err := contract.DecodeReply(reply)
	if err != nil {
		r.s.t.Fatal(err)
	}
	return answer, 0
}

// get sends a GET, which must be answered.
func (r *revision) get() *contract.Reply {
	r.s.t.Helper()
	reply, code := r.call(&contract.Call{URL: r.s.url})
	if code != 0 || reply.Status != http.StatusOK {
		r.s.t.Fatalf("%+v, %d, %q", reply, code, r.s.log)
	}
	return reply
}

var every = contract.Host{Host: "*", Methods: []string{"GET", "PUT", "DELETE"}}

func TestHTTPSendsARequest(t *testing.T) {
	s := newSender(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(append([]byte(r.Method+" "+r.URL.Path+" "+r.UserAgent()+" "), body...))
	})
	reply, code := s.start(s.policy(), every).call(&contract.Call{Method: "PUT", URL: s.url + "/a", Body: []byte("it")})
	if code != 0 || reply.Status != http.StatusTeapot || string(reply.Body) != "PUT /a thole/p it" {
		t.Errorf("%+v, %d", reply, code)
	}
}

func TestHTTPOutsideOfManifestAndPolicyIsDenied(t *testing.T) {
	s := newSender(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was sent", r.Method) })
	for name, c := range map[string]struct {
		call  contract.Call
		hosts []contract.Host
		want  int64
	}{
		"no host in the manifest":      {contract.Call{URL: s.url}, nil, abi.CodeDenied},
		"other host in the manifest":   {contract.Call{URL: s.url}, []contract.Host{{Host: "a"}}, abi.CodeDenied},
		"other method in the manifest": {contract.Call{URL: s.url, Method: "POST"}, []contract.Host{every}, abi.CodeDenied},
		"other method in the policy":   {contract.Call{URL: s.url, Method: "DELETE"}, []contract.Host{every}, abi.CodeDenied},
		"no URL":                       {contract.Call{URL: ":"}, []contract.Host{every}, abi.CodeInvalid},
		"no message":                   {contract.Call{}, []contract.Host{every}, abi.CodeInvalid},
	} {
		s.log = nil
		if _, code := s.start(s.policy(), c.hosts...).call(&c.call); code != c.want || len(s.log) != 1 {
			t.Errorf("%s: %d, %q", name, code, s.log)
		}
	}
}

func TestLongAnswerIsTooLarge(t *testing.T) {
	s := newSender(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, contract.MaxAnswer+1)) })
	if _, code := s.start(s.policy(), every).call(&contract.Call{URL: s.url}); code != abi.CodeTooLarge {
		t.Errorf("code %d", code)
	}
}

// The core decides whether something may be done outside of the cluster, and until when.
func TestNothingIsSentIfNothingMayBeDone(t *testing.T) {
	var sent []string
	s := newSender(t, func(w http.ResponseWriter, r *http.Request) {
		if sent = append(sent, r.URL.Path); r.URL.Path == "/a" {
			http.Redirect(w, r, "/b", http.StatusTemporaryRedirect)
		}
	})
	r := s.start(s.policy(), every)
	ended := 0
	r.begin = func(context.Context) (func(), int64) { return func() { ended++ }, 0 }
	r.mayGoOn = func() error {
		if len(sent) > 0 {
			return errors.New("another replica leads")
		}
		return nil
	}
	if _, code := r.call(&contract.Call{Method: "PUT", URL: s.url + "/a"}); code != abi.CodeUnavailable || !slices.Equal(sent, []string{"/a"}) || ended != 1 {
		t.Errorf("code %d, sent %q, ended %d times", code, sent, ended)
	}
	r.begin = func(context.Context) (func(), int64) { return nil, abi.CodeUnavailable }
	if _, code := r.call(&contract.Call{URL: s.url + "/c"}); code != abi.CodeUnavailable || len(sent) != 1 {
		t.Errorf("code %d, sent %q", code, sent)
	}
}

// Runs that end under a revision that was replaced have its client, of which no connection stays.
func TestClientIsThatOfTheRevision(t *testing.T) {
	open := make(chan int, 16)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open <- 1
		case http.StateClosed:
			open <- -1
		default:
		}
	}
	s := newSenderTo(t, server)
	connection := func(want int) {
		t.Helper()
		select {
		case got := <-open:
			if got != want {
				t.Fatalf("connections: %d, want %d", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing happens to connections, want %d", want)
		}
	}
	first := s.start(s.policy(), every)
	first.get()
	connection(1)
	second := s.start(s.policy(), every)
	connection(-1)
	second.get()
	connection(1)
	dry := s.policy()
	dry.DryRun = true
	third := s.start(dry, every)
	connection(-1)
	if _, code := third.call(&contract.Call{Method: "PUT", URL: s.url}); code != abi.CodeDenied || !strings.Contains(s.log[0], "dryRun") {
		t.Errorf("code %d, %q", code, s.log)
	}
	if reply, code := second.call(&contract.Call{Method: "PUT", URL: s.url}); code != 0 || reply.Status != http.StatusOK {
		t.Errorf("%+v, %d", reply, code)
	}
	connection(1)
	connection(-1)
	third.get()
	connection(1)
	s.part.Stop()
	connection(-1)
}

// A controller sends requests to the hosts that it names itself, not to those of another one of the plugin.
func TestTheHostsAreThoseOfTheController(t *testing.T) {
	s := newSender(t, func(http.ResponseWriter, *http.Request) {})
	section := func(name string, hosts ...contract.Host) abi.Controller {
		return abi.Controller{Name: name, Sections: []abi.Section{{Name: contract.Name, Value: contract.Encode(hosts)}}}
	}
	all := []abi.Controller{section("c", every), section("other", contract.Host{Host: "other.example.com"}), {Name: "none"}}
	use, err := s.part.Prepare(t.Context(), &runner.Revision{
		Revision: events.Revision{Plugin: "p", Number: 1}, Policy: s.policy(), Manifest: &abi.Manifest{Name: "p", Controllers: all},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &revision{s: s, kept: use(runner.Running{Logger: func(l hclog.Logger) hclog.Logger { return l }}), begin: func(context.Context) (func(), int64) { return func() {}, 0 }, mayGoOn: func() error { return nil }}
	for i, want := range []int64{0, abi.CodeDenied, abi.CodeDenied} {
		r.controller = all[i]
		if _, code := r.call(&contract.Call{URL: s.url}); code != want {
			t.Errorf("%s: code %d, want %d", all[i].Name, code, want)
		}
	}
}

// The limits are those of the plugin: a revision that sends no requests must not bring a new burst.
func TestLimitsOutliveARevisionWithoutHTTP(t *testing.T) {
	s := newSender(t, func(http.ResponseWriter, *http.Request) {})
	policy := s.policy()
	of := policy.Sections[contract.Name].(*Settings)
	of.Requests, of.RequestsPerSecond = 1, 0.01
	s.start(policy, every).get()
	if between := s.start(policy); between.kept.(sending).client != nil {
		t.Error("a revision without hosts has a client")
	}
	reply, code := s.start(policy, every).call(&contract.Call{URL: s.url, Timeout: 1000})
	if code != 0 || reply.Error == nil || reply.Error.Reason != contract.Limited {
		t.Errorf("%+v, %d", reply, code)
	}
}

func TestRequestsAreCounted(t *testing.T) {
	s := newSender(t, func(http.ResponseWriter, *http.Request) {})
	r := s.start(s.policy(), every)
	r.get()
	_, _ = r.call(&contract.Call{URL: "http://other.example.com"})
	counted := func() string {
		families, err := s.metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range families {
			for _, series := range f.GetMetric() {
				if n := series.GetCounter().GetValue(); f.GetName() == "thole_http_requests_total" && n > 0 {
					all = append(all, fmt.Sprint(series.GetLabel()[0].GetValue(), " ", series.GetLabel()[1].GetValue() == s.host, " ", n))
				}
			}
		}
		return strings.Join(all, ", ")
	}
	if got, want := counted(), "200 true 1, denied false 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n, err := testutil.GatherAndCount(s.metrics.Registry, "thole_http_requests_total"); n != 2+len(egress.Codes()) || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
	if n, err := testutil.GatherAndCount(s.metrics.Registry, "thole_http_request_duration_seconds"); n != 2 || err != nil {
		t.Errorf("%d histograms, %v", n, err)
	}
}

func TestRequestsAreReportedWithTheirRun(t *testing.T) {
	s := newSender(t, func(http.ResponseWriter, *http.Request) {})
	r, began := s.start(s.policy(), every), time.Now()
	r.get()
	_, _ = r.call(&contract.Call{Method: "DELETE", URL: s.url}) // is denied
	var got []string
	for _, event := range s.events {
		e := event.(events.RequestEnded)
		if e.Run != (events.Run{Plugin: "p", Object: "ns/w"}) || e.Since.Before(began) || e.Since.Add(e.Duration).After(time.Now()) {
			t.Errorf("%+v", e)
		}
		got = append(got, fmt.Sprint(e.Method, " ", e.Status, " ", e.Code))
	}
	if want := []string{"GET 200 200", "DELETE 0 denied"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHostsAreDescribed(t *testing.T) {
	c := &abi.Controller{Sections: []abi.Section{{Name: contract.Name, Value: contract.Encode([]contract.Host{{Host: "api.example.com:8443", Methods: []string{"GET", "POST"}}, {Host: "*"}})}}}
	if got := describe(c); got != "api.example.com:8443 (GET, POST), * (GET)" || describe(&abi.Controller{}) != "" {
		t.Error(got)
	}
}
