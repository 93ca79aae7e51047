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
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktest "k8s.io/utils/clock/testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/await"
)

var polled = abi.Kind{APIVersion: "poll.dev/v1", Kind: "Sample"}

// pollPeer is an aggregated API whose kind Sample can be listed and not watched.
type pollPeer struct {
	*httptest.Server
	t     *testing.T
	clock *pollClock

	mu       sync.Mutex
	objects  map[string]string // JSON by namespace/name
	version  string            // of the lists
	verbs    metav1.Verbs
	served   bool
	requests []*http.Request // without discovery
	fault    func(page int, r *http.Request) http.HandlerFunc
}

// pollClock has the time of the last timer that was made.
type pollClock struct {
	*clocktest.FakeClock
	last atomic.Int64
}

func (c *pollClock) NewTimer(d time.Duration) clock.Timer {
	defer c.last.Store(int64(d))
	return c.FakeClock.NewTimer(d)
}

func newPollPeer(t *testing.T) *pollPeer {
	p := &pollPeer{t: t, clock: &pollClock{FakeClock: clocktest.NewFakeClock(time.Now())}, objects: map[string]string{}, verbs: metav1.Verbs{"get", "list"}, served: true}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *pollPeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.served {
		writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	if r.URL.Path == "/apis/poll.dev/v1" {
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{GroupVersion: "poll.dev/v1", APIResources: []metav1.APIResource{
			{Name: "samples", Kind: "Sample", Namespaced: true, Verbs: p.verbs},
		}})
		return
	}
	p.requests = append(p.requests, r)
	if name, one := strings.CutPrefix(r.URL.Path, "/apis/poll.dev/v1/namespaces/ns/samples/"); one {
		fmt.Fprint(w, p.objects["ns/"+name])
		return
	}
	offset, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	if p.fault != nil {
		if h := p.fault(1+offset/pollPageSize, r); h != nil {
			h(w, r)
			return
		}
	}
	p.page(w, offset, r.URL.Query())
}

// page writes the objects from an offset, as many as the limit says.
func (p *pollPeer) page(w http.ResponseWriter, offset int, q url.Values) {
	keys := slices.Sorted(maps.Keys(p.objects))
	end, next := len(keys), ""
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 && offset+limit < end {
		end, next = offset+limit, strconv.Itoa(offset+limit)
	}
	var items []string
	for _, key := range keys[min(offset, end):end] {
		items = append(items, p.objects[key])
	}
	fmt.Fprint(w, listOf(p.version, next, items...))
}

func listOf(version, next string, items ...string) string {
	return fmt.Sprintf(`{"kind":"SampleList","apiVersion":"poll.dev/v1","metadata":{"resourceVersion":%q,"continue":%q},"items":[%s]}`,
		version, next, strings.Join(items, ","))
}

// put creates or changes a Sample; meta are further members of its metadata, and rest those
// of the object.
func (p *pollPeer) put(name, meta, rest string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objects["ns/"+name] = sampleText(name, meta, rest)
	return p.objects["ns/"+name]
}

func sampleText(name, meta, rest string) string {
	return fmt.Sprintf(`{"apiVersion":"poll.dev/v1","kind":"Sample","metadata":{"name":%q,"namespace":"ns"%s}%s}`, name, meta, rest)
}

func (p *pollPeer) remove(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.objects, "ns/"+name)
}

// breaks makes the pages differ for which the function returns a handler.
func (p *pollPeer) breaks(fault func(page int, r *http.Request) http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// received returns the queries of the lists, in their order, and forgets them.
func (p *pollPeer) received() (queries []url.Values) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.requests {
		queries = append(queries, r.URL.Query())
	}
	p.requests = nil
	return queries
}

// open returns a cache whose clock is that of the peer.
func (p *pollPeer) open(config Config, hooks ...Hooks) *Cache {
	p.t.Helper()
	config.REST, config.Clock = &rest.Config{Host: p.URL, QPS: -1}, p.clock
	config.backoff = quickly
	c, err := New(config)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Stop)
	for _, h := range hooks {
		c.Subscribe(h)
	}
	return c
}

// acquire returns an informer of a scope when it has synced.
func (p *pollPeer) acquire(c *Cache, s scope.Scope) *Informer {
	p.t.Helper()
	i, err := c.Acquire(within(p.t), s)
	if err == nil {
		err = i.WaitForSync(within(p.t))
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return i
}

// lists returns how many lists have ended.
func lists(c *Cache) (n uint64) {
	for _, f := range c.Following() {
		n += f.Succeeded + f.Failed
	}
	return n
}

// after waits until the poller waits for its next list, and lets that time pass. It returns
// when the list has ended, which it must have if the time is long enough.
func (p *pollPeer) after(c *Cache, d time.Duration) {
	p.t.Helper()
	p.idle()
	before := lists(c)
	p.clock.Step(d)
	await.Until(p.t, "the kind is listed", func() bool { return lists(c) > before })
	p.idle()
}

// idle waits until the poller waits for its next list.
func (p *pollPeer) idle() {
	p.t.Helper()
	await.Until(p.t, "the poller waits", p.clock.HasWaiters)
}

// awaitInterval waits until the poller, which has just listed the kind, waits for that interval. To let
// time pass before that would be to race with it.
func (p *pollPeer) awaitInterval(interval time.Duration) {
	p.t.Helper()
	await.Until(p.t, "the poller waits for "+interval.String(), func() bool {
		last := time.Duration(p.clock.last.Load())
		return interval <= last && last <= interval*11/10
	})
}

// interval is long enough for a list at the default interval.
const interval = DefaultPollInterval * 11 / 10
