package receives

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	contract "github.com/thole-dev/thole/abi/receives"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/object"
)

// world is a host that receives events for the plugins "lab" and "other". Its API server is a fake, if
// the test does not replace it.
type world struct {
	testing.TB
	*Handler
	url    string
	client *http.Client
	log    *strings.Builder
	clock  *clocktesting.FakePassiveClock

	labs, nodes, others *controller
	receivers           []Receiver
	starting            bool

	mu      sync.Mutex
	counted map[string]int // events by "PLUGIN CODE"
	asked   map[string]int // questions to the fake API server
	away    bool           // the fake API server does not answer

	authenticated func(token string) // before the fake API server answers a TokenReview; nil: nothing
	reviewed      func()             // before it answers a SubjectAccessReview
}

// controller is one that records its signals.
type controller struct {
	mu      sync.Mutex
	objects map[object.Key][]string // their values of the index "container"
	signals map[object.Key][]string
	late    bool // the index is not read yet

	served object.Resource
	away   atomic.Bool // another replica leads the plugin
}

func (c *controller) Resource() object.Resource { return c.served }

func (c *controller) MayWrite() bool { return !c.away.Load() }

func (c *controller) Has(key object.Key) bool {
	_, has := c.objects[key]
	return has
}

func (c *controller) Resolve(index, key string, most int) (keys []object.Key, err error) {
	if c.late || index != "container" {
		return nil, errors.New("it is not read yet")
	}
	for k, values := range c.objects {
		if slices.Contains(values, key) && len(keys) < most {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

func (c *controller) Signal(key object.Key, given ...[]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range given {
		c.signals[key] = append(c.signals[key], string(g))
	}
	return c.Has(key)
}

func newController(served object.Resource, keys map[object.Key][]string) *controller {
	return &controller{objects: keys, signals: map[object.Key][]string{}, served: served}
}

func resource(name string, namespaced bool) object.Resource {
	return object.Resource{GVR: schema.GroupVersionResource{Group: "lab.example", Version: "v1", Resource: name}, Namespaced: namespaced}
}

var (
	shopOfA = object.Key{Namespace: "a", Name: "shop"}
	cafeOfA = object.Key{Namespace: "a", Name: "cafe"}
	shopOfB = object.Key{Namespace: "b", Name: "shop"}
	node1   = object.Key{Name: "node-1"}
)

const (
	started1 = "com.example.started" // for the subject
	stopped1 = "com.example.stopped" // for the index
	drained  = "com.example.drained" // for a node
	both     = "com.example.both"    // for the plugins lab and other
	schema1  = "https://example.com/schema"
)

// newWorld returns a world. change may change the configuration and the world.
func newWorld(t testing.TB, change func(*Config, *world)) *world {
	t.Helper()
	w := &world{TB: t, log: &strings.Builder{}, counted: map[string]int{}, asked: map[string]int{}, clock: clocktesting.NewFakePassiveClock(time.Now())}
	w.labs = newController(resource("labs", true), map[object.Key][]string{shopOfA: {"c1"}, cafeOfA: {"c1", "c2"}, shopOfB: {"c1", "c3"}})
	w.nodes = newController(resource("nodes", false), map[object.Key][]string{node1: nil})
	w.others = newController(resource("others", true), map[object.Key][]string{shopOfA: nil})
	rate := NewRate(1000)
	w.receivers = []Receiver{
		{Plugin: "lab", Name: "lab", Controller: w.labs, Rate: rate, Receives: []contract.Receive{
			{Type: started1}, {DataSchema: schema1}, {Type: both}, {Type: stopped1, Resolve: &contract.Resolve{Index: "container", From: "data.ids[*]"}},
		}},
		{Plugin: "lab", Name: "node", Controller: w.nodes, Rate: rate, Receives: []contract.Receive{{Type: drained}}},
		{Plugin: "other", Name: "other", Controller: w.others, Rate: NewRate(1000), Receives: []contract.Receive{{Type: both}}},
	}
	c := Config{
		Receivers: func() []Receiver { return w.receivers }, Starting: func() bool { return w.starting },
		Tokens: fakeAuthentication{w: w}, Audiences: []string{"thole.dev"}, Metrics: w,
		Access: access.New(access.Config{Reviews: kube.AccessReviews{Subject: fakeAuthorization{w: w}}, Clock: w.clock}),
		Logger: hclog.New(&hclog.LoggerOptions{Output: w.log, Level: hclog.Trace}), clock: w.clock,
	}
	if change != nil {
		change(&c, w)
	}
	w.Handler = New(c)
	mux := http.NewServeMux()
	mux.Handle("/events", w.Handler)
	mux.Handle("/events/{plugin}", w.Handler)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if address := r.Header.Get(fromHeader); address != "" {
			r.RemoteAddr = address
		}
		mux.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	w.url, w.client = server.URL, http.DefaultClient
	return w
}

// fromHeader has the address that a request comes from, for the server of the tests alone.
const fromHeader = "Test-From"

// from returns the line of a header by which a request comes from another address.
func from(address int) string { return fmt.Sprintf("%s: 192.0.2.%d:1", fromHeader, address) }

func (w *world) Received(plugin string, code, events int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted[fmt.Sprintf("%s %d", plugin, code)] += events
}

// count counts a question to the fake API server, and returns how it fails.
func (w *world) count(question string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[question]++
	if w.away {
		return errors.New("connection refused")
	}
	return nil
}

// fakeAuthentication knows the tokens "good-USER", and "other-USER" for another audience.
type fakeAuthentication struct{ w *world }

func (f fakeAuthentication) Create(_ context.Context, r *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	user, good := strings.CutPrefix(r.Spec.Token, "good-")
	name, other := strings.CutPrefix(r.Spec.Token, "other-")
	switch r.Status = (authenticationv1.TokenReviewStatus{}); {
	case good:
		r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: user}, Audiences: r.Spec.Audiences}
	case other: // as an API server answers that does not look at the audiences
		r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: name}, Audiences: []string{"https://kubernetes.default.svc"}}
	}
	err := f.w.count("token")
	if f.w.authenticated != nil {
		f.w.authenticated(r.Spec.Token)
	}
	return r, err
}

// fakeAuthorization lets the user "all" reconcile everything, "in-a" labs in the namespace a, "by-name"
// the lab a/shop, and nobody else anything.
type fakeAuthorization struct{ w *world }

func (f fakeAuthorization) Create(_ context.Context, r *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	a := r.Spec.ResourceAttributes
	labs := a.Verb == "reconcile" && a.Group == "lab.example" && a.Resource == "labs"
	r.Status.Allowed = r.Spec.User == "all" && a.Verb == "reconcile" ||
		r.Spec.User == "in-a" && labs && a.Namespace == "a" ||
		r.Spec.User == "by-name" && labs && a.Namespace == "a" && a.Name == "shop"
	if f.w.reviewed != nil {
		f.w.reviewed()
	}
	return r, f.w.count("access")
}

// post is a request, by default a good one in structured mode.
type post struct {
	method, path, token, body string
	header                    []string         // "name: value"
	reader                    func() io.Reader // instead of body
	change                    func(w *world)   // before it is sent
}

// ce returns an event in JSON format: a good one with the members of extra, "" for none of these, which
// replace others of the same name.
func ce(extra ...string) string {
	members := map[string]string{"specversion": `"1.0"`, "id": `"1"`, "source": `"/test"`, "type": `"` + started1 + `"`, "subject": `"a/shop"`}
	for i := 0; i < len(extra); i += 2 {
		members[extra[i]] = extra[i+1]
	}
	var all []string
	for name, value := range members {
		if value != "" {
			all = append(all, fmt.Sprintf("%q:%s", name, value))
		}
	}
	slices.Sort(all)
	return "{" + strings.Join(all, ",") + "}"
}

const (
	structured = "application/cloudevents+json"
	batch      = "application/cloudevents-batch+json"
)

// send sends a request.
func (w *world) send(p post) (status int, header http.Header, text string) {
	w.Helper()
	if p.change != nil {
		p.change(w)
	}
	var body io.Reader = strings.NewReader(p.body)
	if p.reader != nil {
		body = p.reader()
	}
	if c, ok := body.(io.Closer); ok {
		defer c.Close() // for HTTP/1.1, whose client goes on to read it
	}
	path, method := p.path, p.method
	if path == "" {
		path = "/events"
	}
	if method == "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(w.Context(), method, w.url+path, body)
	if err != nil {
		w.Fatal(err)
	}
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	for _, line := range p.header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	response, err := w.client.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, string(answer)
}

// expect sends a request, and expects a status.
func (w *world) expect(want int, p post) (http.Header, string) {
	w.Helper()
	status, header, text := w.send(p)
	if status != want {
		w.Errorf("%d %s, want %d", status, text, want)
	}
	return header, text
}

// signalled returns all signals, as "PLUGIN-CONTROLLER KEY" with their number.
func (w *world) signalled() map[string]int {
	all := map[string]int{}
	for name, c := range map[string]*controller{"labs": w.labs, "nodes": w.nodes, "others": w.others} {
		c.mu.Lock()
		for key, signals := range c.signals {
			all[name+" "+key.String()] = len(signals)
		}
		c.mu.Unlock()
	}
	return all
}

func (w *world) expectSignalled(want map[string]int) {
	w.Helper()
	if got := w.signalled(); fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("what runs: %v, want %v", got, want)
	}
}
