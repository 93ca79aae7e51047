package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/kube"
)

func TestMain(m *testing.M) { devcluster.Main(m) }

// cluster returns an API server without Leases.
func cluster(t *testing.T) *rest.Config {
	t.Helper()
	c := devcluster.Shared(t)
	t.Cleanup(func() { // when the replicas have ended
		leases := kubernetes.NewForConfigOrDie(c.Config).CoordinationV1().Leases("default")
		if err := leases.DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
	return c.Config
}

// replica is an election of a test.
type replica struct {
	*Election
	t        *testing.T
	plugin   *Plugin
	lease    *Lease // of the plugin
	changes  atomic.Int64
	requests atomic.Int64 // but for watches and lists
	mu       sync.Mutex
	cut      chan struct{} // requests wait until it is closed; nil: they do not
	stop     func()
	delay    sync.RWMutex // held while the watch shows nothing
}

// RoundTrip implements [http.RoundTripper].
func (r *replica) trip(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.URL.Query().Get("watch") == "" && request.URL.Query().Get("sendInitialEvents") == "" {
			r.requests.Add(1)
		}
		r.mu.Lock()
		cut := r.cut
		r.mu.Unlock()
		if cut != nil {
			select {
			case <-cut:
			case <-request.Context().Done():
				return nil, request.Context().Err()
			}
		}
		reply, err := next.RoundTrip(request)
		if err == nil && request.URL.Query().Get("watch") != "" {
			reply.Body = delayed{reply.Body, &r.delay}
		}
		return reply, err
	})
}

// delayed is the body of a watch, of which nothing is read while delay is held.
type delayed struct {
	io.ReadCloser
	delay *sync.RWMutex
}

func (d delayed) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.delay.RLock()
	defer d.delay.RUnlock()
	return n, err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// cutOff keeps requests from being sent until the returned function is called. An open watch
// goes on.
func (r *replica) cutOff() (heal func()) {
	cut := make(chan struct{})
	r.mu.Lock()
	r.cut = cut
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		r.cut = nil
		r.mu.Unlock()
		close(cut)
	}
}

const (
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 400 * time.Millisecond
)

// longLease is for tests in which another replica leads long before the Lease expires.
func longLease(c *Config) { c.LeaseDuration, c.RenewDeadline = time.Minute, 50*time.Second }

func leases(t *testing.T, config *rest.Config) kube.Leases {
	t.Helper()
	clients, err := kube.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return clients.Leases("default")
}

func newReplica(t *testing.T, config *rest.Config, identity string, with ...func(*Config)) *replica {
	t.Helper()
	r := &replica{t: t}
	own := rest.CopyConfig(config)
	own.QPS = -1
	own.Wrap(r.trip)
	c := Config{
		Client: leases(t, own), Namespace: "default", Name: "thole", Identity: identity, Shards: 4,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Changed: func(*Lease) { r.changes.Add(1) }, Logger: hclog.NewNullLogger(),
	}
	for _, f := range with {
		f(&c)
	}
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r.Election = e
	r.join(false)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx) }()
	r.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(r.stop)
	return r
}

// join takes part in the election for the plugin.
func (r *replica) join(own bool) {
	r.t.Helper()
	p := r.Of("p", own)
	r.plugin, r.lease = p, p.Lease
}

// awaitLeads waits until the replica leads, and returns for how long.
func (r *replica) awaitLeads() time.Duration {
	r.t.Helper()
	began := time.Now()
	await.Until(r.t, r.Identity+" leads", r.plugin.Leads)
	return time.Since(began)
}

// awaitRequests waits until the replica has sent so many more requests.
func (r *replica) awaitRequests(n int64) {
	r.t.Helper()
	until := r.requests.Load() + n
	await.Until(r.t, "more requests", func() bool { return r.requests.Load() >= until })
}

// leads reports whether the replica leads the plugin by any Lease.
func (r *replica) leads() bool {
	p := r.Plugin("p")
	return p != nil && p.Leads()
}

// neverBoth samples that not both lead until the returned function is called.
func neverBoth(t *testing.T, a, b *replica) (end func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				return
			case <-time.After(200 * time.Microsecond):
				if a.leads() && b.leads() && a.leads() {
					t.Error("both lead")
					return
				}
			}
		}
	}()
	return func() { close(ended); <-done }
}

func start(t *testing.T, with ...func(*Config)) (config *rest.Config, a, b *replica) {
	t.Helper()
	config = cluster(t)
	a = newReplica(t, config, "a", with...)
	a.awaitLeads()
	b = newReplica(t, config, "b", with...)
	// One that has never seen the Lease makes it at once if it is deleted.
	await.Until(t, "b sees that a leads", func() bool { return b.lease.Holder() == a.Identity })
	t.Cleanup(neverBoth(t, a, b))
	return config, a, b
}

func TestALeaseThatIsGivenUpIsTakenOverAtOnce(t *testing.T) {
	config, a, b := start(t, longLease)
	for i := range 5 {
		await.Until(t, "b sees that a leads", func() bool { return b.lease.Holder() == a.Identity })
		a.stop()
		if took := b.awaitLeads(); took > time.Minute/2 {
			t.Errorf("taken over after %s", took)
		}
		a, b = b, newReplica(t, config, fmt.Sprintf("c-%d", i), longLease)
	}
}

func TestALeaseThatIsNotRenewedIsTakenOverWhenItExpires(t *testing.T) {
	_, a, b := start(t)
	await.Until(t, "b sees that a leads", func() bool { return b.lease.Holder() == a.Identity })
	heal := a.cutOff()
	cut := time.Now()
	await.Within(t, 2*leaseDuration, "a must not write any more", func() bool {
		after := time.Since(cut) // before it is asked: a may be slow
		leads := a.plugin.Leads()
		if leads && after >= renewDeadline {
			t.Errorf("a may write after %s", after)
		}
		return !leads
	})
	if err := a.lease.Check(); !errors.Is(err, ErrNotLeading) {
		t.Errorf("got %v", err)
	}
	b.awaitLeads()
	// It neither takes the Lease back nor gives up that of b.
	heal()
	await.Until(t, "a sees that b leads", func() bool { return a.lease.Holder() == b.Identity })
	b.awaitRequests(10)
	if !b.lease.Leads() || a.lease.Leads() || b.changes.Load() != 1 {
		t.Errorf("b leads: %v, a leads: %v, %d changes of b", b.lease.Leads(), a.lease.Leads(), b.changes.Load())
	}
	b.stop()
	a.awaitLeads()
}

func TestReplicasThatWaitSendNoRequests(t *testing.T) {
	_, a, b := start(t, longLease)
	await.Until(t, "b has looked", func() bool { b.lease.mu.Lock(); defer b.lease.mu.Unlock(); return b.lease.read == "a" })
	ofA, ofB := a.requests.Load(), b.requests.Load()
	began := time.Now()
	a.awaitRequests(5)
	periods := int64(time.Since(began) / retryPeriod)
	if n := b.requests.Load() - ofB; n != 0 {
		t.Errorf("b sent %d requests", n)
	}
	if n := a.requests.Load() - ofA; n > periods+2 {
		t.Errorf("a sent %d requests in %d periods", n, periods)
	}
}

// Two replicas that wait for the same Lease try at the same time.
func TestAReplicaThatWasTooLateHasNoErrorWhileAnotherLeads(t *testing.T) {
	config, a, b := start(t, longLease)
	c := newReplica(t, config, "c", longLease)
	await.Until(t, "c knows who leads", func() bool { return c.lease.Holder() == "a" })
	a.stop()
	await.Until(t, "another one leads", func() bool { return b.lease.Leads() || c.lease.Leads() })
	late := b
	if b.lease.Leads() {
		late = c
	}
	late.lease.failed(errors.New("it was too late"))
	await.Until(t, "it has no error", func() bool { return late.lease.Err() == nil })
	before := late.requests.Load()
	leader := b
	if late == b {
		leader = c
	}
	leader.awaitRequests(3) // one in each period
	if sent := late.requests.Load() - before; sent > 0 {
		t.Errorf("it goes on sending requests: %d", sent)
	}
}

func TestALeaseThatIsDeletedIsMadeAgain(t *testing.T) {
	config, a, b := start(t, longLease)
	leases := kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases("default")
	for range 3 {
		if err := leases.Delete(t.Context(), a.lease.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "one leads", func() bool {
			found, err := leases.Get(t.Context(), a.lease.Name, metav1.GetOptions{})
			return err == nil && (holder(found) == "a" && a.lease.Leads() || holder(found) == "b" && b.lease.Leads())
		})
	}
}

// The watch of the leader shows that the Lease is gone, and not yet that the leader has made it again.
func TestALeaseThatWasJustMadeAgainIsGivenUp(t *testing.T) {
	config, a, b := start(t, longLease)
	leases := kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases("default")
	heal := a.cutOff()
	if err := leases.Delete(t.Context(), a.lease.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a sees that the Lease is gone", func() bool { return a.lease.Holder() == "" })
	a.delay.Lock()
	defer a.delay.Unlock()
	heal()
	await.Until(t, "a has made it again", func() bool {
		found, err := leases.Get(t.Context(), a.lease.Name, metav1.GetOptions{})
		return err == nil && holder(found) == a.Identity && a.leads()
	})
	a.stop()
	if took := b.awaitLeads(); took > time.Minute/2 {
		t.Errorf("taken over after %s", took)
	}
}

func TestAnnotationsStayWhenAnotherReplicaLeads(t *testing.T) {
	_, a, b := start(t, longLease)
	one := "1"
	if err := a.lease.Annotate(t.Context(), map[string]*string{"x": &one}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "b sees the annotation", func() bool { return b.lease.Annotations()["x"] == "1" })
	a.stop()
	b.awaitLeads()
	b.awaitRequests(3)
	if got := a.lease.Annotations()["x"]; got != "1" {
		t.Errorf("after b has taken over it is %q", got)
	}
}

func TestPluginsAreSpreadOverShards(t *testing.T) {
	e, err := New(Config{Client: leases(t, &rest.Config{}), Namespace: "n", Name: "thole", Identity: "i", Shards: 4, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for i := range 400 {
		p := e.Of(fmt.Sprintf("plugin-%d", i), false)
		count[p.Lease.Name]++
	}
	for name, n := range count {
		if n < 70 || n > 130 {
			t.Errorf("%d of 400 plugins are in %s", n, name)
		}
	}
	if own := e.Of("p", true); own.Lease.Name != "thole-plugin-p" || len(count) != 4 {
		t.Errorf("%v, %d shards", own, len(count))
	}
}
