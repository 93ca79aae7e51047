package runner

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/egress"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/rights"
)

// startHTTP starts a plugin of widgets that sends requests.
func startHTTP(t *testing.T, r *Runner, policy config.Policy, hosts ...abi.HTTPHost) (*egress.Client, error) {
	t.Helper()
	policy.Limits.Concurrency = 1
	err := r.Start(t.Context(), &Revision{
		Revision: events.Revision{Plugin: "p", Number: 1, Digest: "d"}, Policy: policy,
		Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: widgets.All(), HTTP: hosts}}},
	}, func() error { return nil })
	if err != nil {
		return nil, err
	}
	return r.plugins["p"].controllers["c"].Revision().HTTP, nil
}

func TestHTTPNeedsThePolicy(t *testing.T) {
	url, _ := startCore(t)
	r := newRunner(t, url, "")
	logs := logtest.New(hclog.Warn)
	r.Logger = logs.Logger
	r.Ceiling = config.Allow{Entries: map[string]rights.Entries{"p": rights.Everything()}}
	hosts := []abi.HTTPHost{{Host: "api.example.com", Methods: []string{"GET", "POST"}}, {Host: "b.test"}}
	const entry = "[{host: b.test, methods: [GET]}, {host: api.example.com, methods: [GET, POST]}]"
	policy := config.Policy{HTTP: egress.Entries{{Host: "b.test"}}}
	_, err := startHTTP(t, r, policy, hosts...)
	want := "the policy does not allow what the manifest asks for; write to p.yaml, beside the module, and leave its other fields as they are: " +
		"{apiVersion: thole.dev/v1alpha1, http: " + entry + "}; and to the file of --config: {allow: {http: {p: " + entry + "}}}"
	if wait, ok := errors.AsType[*catalog.WaitError](err); !ok || !wait.Denied || wait.Reason != want {
		t.Fatalf("got  %v\nwant %s", err, want)
	}
	policy.HTTP = append(policy.HTTP, egress.Entry{Host: "*.example.com", Methods: []string{"GET", "POST"}})
	if client, err := startHTTP(t, r, policy, hosts...); client == nil || err != nil {
		t.Error(err)
	}
	if client, err := startHTTP(t, r, policy); client != nil || err != nil {
		t.Errorf("without http in the manifest: %v, %v", client, err)
	}
	logs.ExpectNone(t)

	// thole dev
	r.AllowRequested = true
	if client, err := startHTTP(t, r, config.Policy{HTTP: policy.HTTP[:1]}, hosts...); client == nil || err != nil {
		t.Error(err)
	}
	logs.ExpectNext(t, hclog.Warn, "policy", "{apiVersion: thole.dev/v1alpha1, http: "+entry+"}")
	_, err = startHTTP(t, r, config.Policy{}, abi.HTTPHost{Host: "*"})
	if wait, ok := errors.AsType[*catalog.WaitError](err); !ok || !strings.Contains(wait.Reason, "http: [{host: '*', methods: [GET]}]") {
		t.Errorf("every host: %v", err)
	}
	if client, err := startHTTP(t, r, config.Policy{HTTP: egress.Entries{{Host: "*"}}}, abi.HTTPHost{Host: "*"}); client == nil || err != nil {
		t.Error(err)
	}
}

func TestClientIsThatOfTheRevision(t *testing.T) {
	open := make(chan int, 16)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Authorization", r.UserAgent())
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open <- 1
		case http.StateClosed:
			open <- -1
		default:
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	url, _ := startCore(t)
	r := newRunner(t, url, "")
	host := server.Listener.Addr().String()
	policy := config.Policy{HTTP: egress.Entries{{Host: host, Scheme: "http", Addresses: []string{"loopback"}}}}
	declared := abi.HTTPHost{Host: host}
	get := func(c *egress.Client, want string) {
		t.Helper()
		if reply, err := c.Do(t.Context(), []abi.HTTPHost{declared}, &abi.HTTPCall{URL: server.URL}, 100, nil, nil); err != nil || reply.Status != 200 || !strings.Contains(string(abi.EncodeHTTPReply(reply)), want) {
			t.Fatalf("%+v, %v", reply, err)
		}
	}
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
	first, err := startHTTP(t, r, policy, declared)
	if err != nil {
		t.Fatal(err)
	}
	get(first, "thole/p")
	connection(1)
	second, err := startHTTP(t, r, policy, declared)
	if err != nil || second == first {
		t.Fatal("the revision has the client of the one before", err)
	}
	connection(-1)
	get(second, "thole/p")
	connection(1)
	if got := gathered(t, r, "thole_http_requests_total"); !strings.Contains(got, `label:{name:"code" value:"200"} label:{name:"host" value:"`+host+`"} label:{name:"plugin" value:"p"} counter:{value:2`) {
		t.Error(got)
	}
	r.Stop("p", false)
	connection(-1)
	policy.DryRun, policy.HTTP[0].Methods, declared.Methods = true, []string{"PUT"}, []string{"PUT"}
	third, err := startHTTP(t, r, policy, declared)
	if err != nil {
		t.Fatal(err)
	}
	_, err = third.Do(t.Context(), []abi.HTTPHost{declared}, &abi.HTTPCall{Method: "PUT", URL: server.URL}, 100, nil, nil)
	if _, ok := errors.AsType[*egress.DeniedError](err); !ok || !strings.Contains(err.Error(), "dryRun") {
		t.Error(err)
	}
}

// The limits are those of the plugin: a revision that sends no requests must not bring a new burst.
func TestLimitsOutliveARevisionWithoutHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	url, _ := startCore(t)
	r := newRunner(t, url, "")
	host := server.Listener.Addr().String()
	policy := config.Policy{HTTP: egress.Entries{{Host: host, Scheme: "http", Addresses: []string{"loopback"}}}}
	policy.Limits.HTTPRequests, policy.Limits.HTTPRequestsPerSecond = 1, 0.01
	declared := abi.HTTPHost{Host: host}
	get := func(c *egress.Client, timeout int64) (*abi.HTTPReply, error) {
		return c.Do(t.Context(), []abi.HTTPHost{declared}, &abi.HTTPCall{URL: server.URL, Timeout: timeout}, 100, nil, nil)
	}
	first, err := startHTTP(t, r, policy, declared)
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := get(first, 0); err != nil || reply.Status != 200 {
		t.Fatalf("%+v, %v", reply, err)
	}
	if between, err := startHTTP(t, r, policy); between != nil || err != nil {
		t.Fatal(between, err)
	}
	second, err := startHTTP(t, r, policy, declared)
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := get(second, 1000); err != nil || reply.Error == nil || reply.Error.Reason != abi.HTTPLimited {
		t.Errorf("%+v, %v", reply, err)
	}
}

// gathered returns the series of a metric as text.
func gathered(t *testing.T, r *Runner, name string) (text string) {
	t.Helper()
	families, err := r.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			text = strings.ReplaceAll(family.String(), "  ", " ") // of which the spaces vary
		}
	}
	return text
}
