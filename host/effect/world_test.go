package effect

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// The kinds of the tests. Widget has everything, Gadget has no conditions in
// its schema, Plain has no subresource /status.
var (
	pod            = kind("v1", "Pod", "pods", true, true)
	configMap      = kind("v1", "ConfigMap", "configmaps", true, false)
	secret         = kind("v1", "Secret", "secrets", true, false)
	service        = kind("v1", "Service", "services", true, true)
	namespace      = kind("v1", "Namespace", "namespaces", false, true)
	serviceAccount = kind("v1", "ServiceAccount", "serviceaccounts", true, false)
	deployment     = kind("apps/v1", "Deployment", "deployments", true, true)
	widget         = kind("test.thole.dev/v1", "Widget", "widgets", true, true)
	widgetV2       = kind("test.thole.dev/v2", "Widget", "widgets", true, true) // not served
	gadget         = kind("test.thole.dev/v1", "Gadget", "gadgets", true, true)
	plain          = kind("test.thole.dev/v1", "Plain", "plains", true, false)
	tree           = kind("test.thole.dev/v1", "Tree", "trees", false, true)
)

var (
	role        = kind("rbac.authorization.k8s.io/v1", "Role", "roles", true, false)
	roleBinding = kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", true, false)
	webhook     = kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false, false)
)

var known = []object.Resource{pod, configMap, secret, service, namespace, deployment, widget, widgetV2, gadget, plain, tree, roleBinding, podTemplates, job, statefulSet, claim, fixed}

func kind(apiVersion, kind, plural string, namespaced, status bool) object.Resource {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		panic(err)
	}
	return object.Resource{
		Kind: abi.Kind{APIVersion: apiVersion, Kind: kind}, GVR: gv.WithResource(plural),
		Namespaced: namespaced, Status: status,
	}
}

// store is a cache that holds what the test put into it.
type store struct {
	mu       sync.Mutex
	objects  map[objectID]*object.Object
	unsynced map[abi.Kind]bool
	// selects, if it is set, reports whether an object is followed at all. Of a kind
	// in selected only selected ones are followed, of one in metadata only metadata.
	selects  func(*object.Object) bool
	selected map[abi.Kind]bool
	metadata map[abi.Kind]bool
	// schemas, if it is set, returns the schema of a status.
	schemas func(ctx context.Context, kind abi.Kind, maxAge time.Duration) (*object.Schema, error)
	written bool // of what is not selected there is metadata
}

func (s *store) Resource(_ context.Context, kind abi.Kind) (object.Resource, error) {
	for _, r := range known {
		if r.Kind == kind {
			return r, nil
		}
	}
	return object.Resource{}, &object.UnknownKindError{Kind: kind}
}

func (s *store) Get(kind abi.Kind, key object.Key) (*object.Object, Presence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[objectIDOf(kind, key)]
	switch {
	case s.unsynced[kind]:
		return nil, Unknown
	case s.written && o != nil && s.selected[kind] && !s.selects(o):
		return o.Metadata(), Unselected
	case s.selected[kind] && (o == nil && !s.written || o != nil && !s.selects(o)):
		return nil, Unselected
	case o == nil:
		return nil, Absent
	case s.metadata[kind]:
		return o.Metadata(), Present
	}
	return o, Present
}

func (s *store) All(kind abi.Kind) iter.Seq[*object.Object] {
	var all []*object.Object
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects {
		if o.Kind == kind && !s.unsynced[kind] && (!s.selected[kind] || s.written || s.selects(o)) {
			all = append(all, o)
		}
	}
	return slices.Values(all)
}

func (s *store) OwnedBy(kind abi.Kind, namespace string, owner types.UID) (owned []*object.Object, ok bool) {
	for o := range s.All(kind) {
		if c := o.Controller(); c != nil && c.UID == owner && (namespace == "" || o.Namespace == namespace) {
			owned = append(owned, o)
		}
	}
	return owned, !s.unsynced[kind]
}

func (s *store) StatusSchema(ctx context.Context, kind abi.Kind, maxAge time.Duration) (*object.Schema, error) {
	if s.schemas == nil {
		return nil, nil
	}
	return s.schemas(ctx, kind, maxAge)
}

func (s *store) put(o *object.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[objectID]*object.Object{}
	}
	s.objects[objectIDOf(o.Kind, o.Key())] = o
}

func (s *store) drop(kind abi.Kind, key object.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, objectIDOf(kind, key))
}

// recorder keeps events as "Type Reason Message".
type recorder struct{ events []string }

func (r *recorder) Event(_ runtime.Object, eventType, reason, message string) {
	r.events = append(r.events, eventType+" "+reason+" "+message)
}

// wire records requests. before, if it is set, is called once before the next
// request is sent.
type wire struct {
	mu     sync.Mutex
	sent   []request
	before func(request)
	loses  func(request) bool // the reply of a request
}

type request struct {
	method, path, query, contentType, agent, body string
}

func (r request) String() string { return strings.TrimSuffix(r.method+" "+r.path+"?"+r.query, "?") }

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper { return &wireTap{next, w} }

type wireTap struct {
	next http.RoundTripper
	*wire
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *wireTap) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t *wireTap) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	query.Del("timeout") // the same everywhere
	got := request{
		method: r.Method, path: r.URL.Path, query: query.Encode(),
		contentType: r.Header.Get("Content-Type"), agent: r.Header.Get("User-Agent"),
	}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		got.body, r.Body = string(body), io.NopCloser(bytes.NewReader(body))
	}
	t.mu.Lock()
	t.sent = append(t.sent, got)
	before := t.before
	t.before = nil
	t.mu.Unlock()
	if before != nil {
		before(got)
	}
	reply, err := t.next.RoundTrip(r)
	if err == nil && t.loses != nil && t.loses(got) {
		reply.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return reply, err
}

// take returns the requests since the last call.
func (w *wire) take() []request {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return sent
}

// world is a performer with what it needs.
type world struct {
	*testing.T
	*Performer
	store    store
	recorder recorder
	wire     wire
	logs     *logtest.Log
	now      time.Time
	config   *rest.Config
	admin    client
	ns       string
}

// newWorld makes a performer of plugin "demo" against config.
func newWorld(t *testing.T, config *rest.Config, change ...func(*Config)) *world {
	t.Helper()
	w := &world{T: t, logs: logtest.New(hclog.Info), now: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), ns: "default"}
	w.config = rest.CopyConfig(config)
	w.config.Wrap(w.wire.wrap)
	w.start(change...)
	admin, err := newClient(&Config{REST: config, Planner: Planner{Plugin: "admin", Logger: hclog.NewNullLogger()}, QPS: 1000, Burst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	w.admin = admin
	return w
}

// start makes a new performer, as after a restart of the host.
func (w *world) start(change ...func(*Config)) {
	w.Helper()
	config := Config{
		Planner: Planner{Plugin: "demo", Store: &w.store, Logger: w.logs.Logger, Now: func() time.Time { return w.now }, Allow: allowing()},
		REST:    w.config, Version: "1.2.3", Recorder: &w.recorder, QPS: 1000, Burst: 1000,
	}
	for _, c := range change {
		c(&config)
	}
	p, err := New(config)
	if err != nil {
		w.Fatal(err)
	}
	w.Performer = p
}

// newSession returns a call without intents.
func newSession(p *Performer, t Target) *session {
	s := &session{Performer: p, records: p.memory.of(t, true)}
	s.check(context.Background(), &p.Planner, t, &abi.Result{}, p.Managed)
	return s
}

// allowing returns entries for every kind, in the namespaces or, if there are none, in that of
// the primary.
func allowing(namespaces ...string) rights.Entries {
	all := []string{rights.Any}
	return rights.Entries{{Groups: all, Kinds: all, Verbs: all, Namespaces: namespaces}}
}

const primary = `{"apiVersion":"test.thole.dev/v1","kind":"Widget","metadata":{"name":"w","namespace":"default","uid":"u1","resourceVersion":"5","generation":1},"spec":{}}`

// newFake returns a world whose API server is the handler, and a Widget.
func newFake(t *testing.T, handler http.HandlerFunc, change ...func(*Config)) (*world, Target) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	w := newWorld(t, &rest.Config{Host: server.URL}, change...)
	return w, Target{Controller: controller(list(configMap), nil), Object: parse(t, primary)}
}

func respond(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func respondStatus(code int, reason, message, causes string) http.HandlerFunc {
	return respond(code, "application/json", fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Status","status":"Failure","message":%q,"reason":%q,"code":%d,"details":{"causes":[%s]}}`, message, reason, code, causes))
}

// controller returns a controller that owns and writes the given kinds.
func controller(owns, writes []object.Resource) *abi.Controller {
	c := &abi.Controller{Name: "main", For: widget.Kind.All()}
	for _, k := range owns {
		c.Owns = append(c.Owns, k.Kind.All())
	}
	for _, k := range writes {
		c.Writes = append(c.Writes, k.Kind)
	}
	return c
}

func parse(t *testing.T, text string) *object.Object {
	t.Helper()
	o, err := object.Parse([]byte(text), abi.Kind{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func list(r ...object.Resource) []object.Resource { return r }

func apply(object string, args ...any) *abi.Result {
	return &abi.Result{Apply: []abi.Apply{{Object: fmt.Appendf(nil, object, args...)}}}
}

func adopt(in *abi.Result) *abi.Result {
	in.Apply[0].Adopt = true
	return in
}

const podObject = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"web"}},
"spec":{"containers":[{"name":"main","image":%q,"resources":{"requests":{"cpu":"1000m"}},"ports":[{"containerPort":80}],"args":["a","b"]}]}}`

const (
	configObject  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":%q}}`
	serviceObject = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"svc"},"spec":{"selector":{"app":"web"},"ports":[{"port":80}]}}`
)
