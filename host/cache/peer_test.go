package cache

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/internal/await"
)

var widget = abi.Kind{APIVersion: "example.dev/v1", Kind: "Widget"}

// peer is an API server for widgets into which tests can inject faults. Tests
// without faults use a real API server.
type peer struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	served   bool
	silent   bool
	frozen   chan struct{}     // closed to silence all watches that are open
	objects  map[string]string // by namespace/name
	version  int
	log      []logged
	changed  chan struct{}   // closed with each change of the above
	cut      chan struct{}   // closed to end all watches
	requests []*http.Request // without discovery
	fault    func(*http.Request) http.HandlerFunc
	arrived  chan *http.Request
}

// logged is an event of the watches.
type logged struct {
	version int
	kind    string
	object  string
}

func newPeer(t *testing.T) *peer {
	p := &peer{
		t: t, served: true, version: 100, objects: map[string]string{},
		changed: make(chan struct{}), cut: make(chan struct{}), frozen: make(chan struct{}), arrived: make(chan *http.Request, 1000),
	}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *peer) config() *rest.Config { return &rest.Config{Host: p.URL} }

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/apis/example.dev/v1" {
		p.discovery(w)
		return
	}
	p.mu.Lock()
	p.requests = append(p.requests, r)
	fault, served := p.fault, p.served
	p.mu.Unlock()
	p.arrived <- r
	if fault != nil {
		if h := fault(r); h != nil {
			h(w, r)
			return
		}
	}
	query := r.URL.Query()
	switch {
	case !served:
		writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case query.Get("watch") != "":
		p.watch(w, r, query)
	case strings.HasSuffix(r.URL.Path, "/widgets"):
		p.list(w)
	default:
		p.get(w, r.URL.Path)
	}
}

func (p *peer) discovery(w http.ResponseWriter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.served {
		writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	all := metav1.Verbs{"create", "get", "list", "watch"}
	_ = json.NewEncoder(w).Encode(metav1.APIResourceList{GroupVersion: "example.dev/v1", APIResources: []metav1.APIResource{
		{Name: "widgets", Kind: "Widget", Namespaced: true, Verbs: all},
		{Name: "widgets/status", Kind: "Widget", Namespaced: true, Verbs: metav1.Verbs{"patch"}},
		{Name: "reviews", Kind: "Review", Verbs: metav1.Verbs{"create"}},
	}})
}

func (p *peer) get(w http.ResponseWriter, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	parts := strings.Split(strings.TrimPrefix(path, "/apis/example.dev/v1/namespaces/"), "/")
	o, ok := p.objects[parts[0]+"/"+parts[len(parts)-1]]
	if !ok {
		writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	fmt.Fprintln(w, o)
}

// list omits apiVersion and kind of the items, as the lists of built-in kinds do.
func (p *peer) list(w http.ResponseWriter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var items []string
	for _, o := range p.objects {
		items = append(items, strings.Replace(o, `"apiVersion":"example.dev/v1","kind":"Widget",`, "", 1))
	}
	slices.Sort(items)
	fmt.Fprintf(w, `{"kind":"WidgetList","apiVersion":"example.dev/v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`+"\n",
		p.version, strings.Join(items, ","))
}

func (p *peer) watch(w http.ResponseWriter, r *http.Request, query url.Values) {
	p.mu.Lock()
	from, _ := strconv.Atoi(query.Get("resourceVersion"))
	cut, frozen := p.cut, p.frozen
	if query.Get("sendInitialEvents") == "true" {
		for _, o := range p.objects {
			writeEvent(w, "ADDED", o)
		}
		writeEvent(w, "BOOKMARK", fmt.Sprintf(`{"kind":"Widget","apiVersion":"example.dev/v1","metadata":{"resourceVersion":"%d","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}}}`, p.version))
		from = p.version
	}
	p.mu.Unlock()
	w.(http.Flusher).Flush()
	for {
		p.mu.Lock()
		changed := p.changed
		select {
		case <-frozen:
			changed = nil
		default:
		}
		for _, e := range p.log {
			if e.version > from && changed != nil {
				writeEvent(w, e.kind, e.object)
				from = e.version
			}
		}
		p.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func writeEvent(w http.ResponseWriter, kind, object string) {
	fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", kind, object)
}

func status(code int, reason metav1.StatusReason) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"injected","reason":%q,"code":%d}`, reason, code)
}

func writeStatus(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.WriteHeader(code)
	fmt.Fprintln(w, status(code, reason))
}

// put creates or changes a widget; meta are further members of its metadata,
// such as `"labels":{"a":"b"}`. It returns the resourceVersion.
func (p *peer) put(namespace, name string, meta ...string) string {
	return p.putUID(namespace, name, "uid-"+name, meta...)
}

func (p *peer) putUID(namespace, name, uid string, meta ...string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	key, kind := namespace+"/"+name, "ADDED"
	if p.objects[key] != "" {
		kind = "MODIFIED"
	}
	p.version++
	members := append([]string{
		fmt.Sprintf(`"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d"`, name, namespace, uid, p.version),
	}, meta...)
	p.objects[key] = fmt.Sprintf(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{%s},"spec":{}}`, strings.Join(members, ","))
	p.emit(kind, p.objects[key])
	return strconv.Itoa(p.version)
}

func (p *peer) remove(namespace, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	o := p.objects[namespace+"/"+name]
	delete(p.objects, namespace+"/"+name)
	p.emit("DELETED", o)
}

// bookmark sends a bookmark with a new resourceVersion to all watches.
func (p *peer) bookmark() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	p.emit("BOOKMARK", fmt.Sprintf(`{"kind":"Widget","apiVersion":"example.dev/v1","metadata":{"resourceVersion":"%d","creationTimestamp":null}}`, p.version))
	return strconv.Itoa(p.version)
}

// saved is the state of a peer.
type saved struct {
	objects map[string]string
	version int
}

func (p *peer) save() saved {
	p.mu.Lock()
	defer p.mu.Unlock()
	return saved{maps.Clone(p.objects), p.version}
}

// restore goes back to a saved state, at that version or a later one, and ends all
// watches.
func (p *peer) restore(to saved, version int) {
	p.replace(to, version)
	p.cutWatches()
}

// replace goes back to a saved state, at that version or a later one.
func (p *peer) replace(to saved, version int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objects, p.version, p.log = maps.Clone(to.objects), version, nil
}

func (p *peer) emit(kind, object string) {
	if !p.silent {
		p.log = append(p.log, logged{p.version, kind, object})
		p.broadcast()
	}
}

// send writes a raw event to all watches.
func (p *peer) send(kind, object string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	p.emit(kind, object)
}

func (p *peer) broadcast() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// cutWatches ends all watches.
func (p *peer) cutWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.cut)
	p.cut = make(chan struct{})
}

// freezeWatches silences all watches that are open. They stay open.
func (p *peer) freezeWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.frozen)
	p.frozen = make(chan struct{})
}

// silence makes the watches skip changes, or not.
func (p *peer) silence(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
}

func (p *peer) set(served bool, fault func(*http.Request) http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served, p.fault = served, fault
}

// received returns the queries of the requests so far.
func (p *peer) received() []url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	var queries []url.Values
	for _, r := range p.requests {
		queries = append(queries, r.URL.Query())
	}
	return queries
}

// next waits for a request that matches.
func (p *peer) next(match func(url.Values) bool) {
	p.t.Helper()
	p.nextAfter(match, func() {})
}

// nextAfter calls do until a request arrives that matches.
func (p *peer) nextAfter(match func(url.Values) bool, do func()) {
	p.t.Helper()
	await.Until(p.t, "a request arrives that matches", func() bool {
		do()
		return p.arrivedOne(match)
	})
}

// arrivedOne reports whether one of the requests since the last call matches.
func (p *peer) arrivedOne(match func(url.Values) bool) bool {
	for {
		select {
		case r := <-p.arrived:
			if match(r.URL.Query()) {
				return true
			}
		default:
			return false
		}
	}
}

func isWatchList(q url.Values) bool { return q.Get("sendInitialEvents") == "true" }
func isCheck(q url.Values) bool     { return q.Get("limit") == "1" }
func isRewatch(q url.Values) bool   { return q.Get("watch") != "" && !isWatchList(q) }
