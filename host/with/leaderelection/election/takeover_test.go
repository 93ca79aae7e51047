package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
)

// change changes the Lease of a as somebody else.
func change(t *testing.T, config *rest.Config, a *replica, change func(*coordinationv1.Lease)) {
	t.Helper()
	leases := kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases("default")
	if err := await.Success(func() error {
		l, err := leases.Get(t.Context(), a.lease.Name, metav1.GetOptions{})
		if err == nil {
			change(l)
			_, err = leases.Update(t.Context(), l, metav1.UpdateOptions{})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// The elector changes the Lease that a write has returned, for its next write.
func TestTheReplyToAWriteIsNotWhatIsRemembered(t *testing.T) {
	config, a, _ := start(t, longLease)
	c := client{kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases("default"), a.lease}
	var reply *coordinationv1.Lease
	if err := await.Success(func() error {
		found, err := c.Get(t.Context(), a.lease.Name, metav1.GetOptions{})
		if err == nil {
			reply, err = c.Update(t.Context(), found, metav1.UpdateOptions{})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	a.lease.mu.Lock()
	defer a.lease.mu.Unlock()
	if a.lease.written == reply {
		t.Error("both are one object")
	}
}

// A request fails while b waits, such as in a lost race.
func TestAReplicaThatWaitsAfterAFailureSendsNoRequests(t *testing.T) {
	config, a, b := start(t)
	await.Until(t, "b sees that a leads", func() bool { return b.lease.Holder() == a.Identity })
	c := newReplica(t, config, "c")
	await.Until(t, "c sees that a leads", func() bool { return c.lease.Holder() == a.Identity })
	heal := b.cutOff()
	a.stop()
	c.awaitLeads()
	await.Until(t, "the request of b fails", func() bool { return b.lease.Err() != nil })
	heal()
	await.Until(t, "b has looked again", func() bool { return b.lease.Err() == nil })
	ofB := b.requests.Load()
	c.awaitRequests(6)
	if n := b.requests.Load() - ofB; n > 1 {
		t.Errorf("b sent %d requests", n)
	}
}

// The last renewal is interrupted and arrives all the same, just before that.
func TestALeaseIsGivenUpAfterAConflict(t *testing.T) {
	config := cluster(t)
	leases := kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases("default")
	var given atomic.Bool
	own := rest.CopyConfig(config)
	own.ContentType = "application/json"
	own.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut && !strings.Contains(bodyOf(t, r), `"holderIdentity":"a"`) && given.CompareAndSwap(false, true) {
				_, err := leases.Patch(context.Background(), path.Base(r.URL.Path), types.MergePatchType, []byte(`{"metadata":{"labels":{"late":"yes"}}}`), metav1.PatchOptions{})
				if err != nil {
					t.Error(err)
				}
			}
			return next.RoundTrip(r)
		})
	})
	a := newReplica(t, own, "a", longLease)
	a.awaitLeads()
	b := newReplica(t, config, "b", longLease)
	await.Until(t, "b sees that a leads", func() bool { return b.lease.Holder() == "a" })
	a.stop()
	if !given.Load() {
		t.Error("the Lease was not given up")
	}
	if took := b.awaitLeads(); took > time.Minute/2 {
		t.Errorf("taken over after %s", took)
	}
}

func bodyOf(t *testing.T, r *http.Request) string {
	t.Helper()
	body, err := r.GetBody()
	if err != nil {
		t.Error(err)
		return ""
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// The process was stopped meanwhile, so that it has not noticed that the Lease expired.
func TestALeaderThatFindsTheLeaseGivenUpByAnotherOneBeginsAnew(t *testing.T) {
	config := cluster(t)
	a := newReplica(t, config, "a", longLease)
	a.awaitLeads()
	before := a.plugin.Leading()
	for _, by := range []string{"b", ""} {
		change(t, config, a, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &by })
	}
	await.Until(t, "a has ceased to lead and begun again", func() bool { return a.changes.Load() == 3 })
	a.awaitLeads()
	if a.plugin.Leading() == before {
		t.Error("who waits for the leader does not notice that another one has led")
	}
}

// Both replicas are configured differently, as in a rollout.
func TestALongerLeaseDurationOfTheLeaderCounts(t *testing.T) {
	config := cluster(t)
	a := newReplica(t, config, "a", func(c *Config) { c.LeaseDuration, c.RenewDeadline = 2*leaseDuration, 2*leaseDuration-time.Second })
	a.awaitLeads()
	b := newReplica(t, config, "b")
	t.Cleanup(neverBoth(t, a, b))
	await.Until(t, "b sees that a leads", func() bool { return b.lease.Holder() == "a" })
	a.cutOff()
	b.awaitLeads()
	if a.leads() {
		t.Error("both lead")
	}
}

func TestAnnotationsOutliveADeletedLease(t *testing.T) {
	config, a, b := start(t, longLease)
	one := "1"
	if err := a.lease.Annotate(t.Context(), map[string]*string{"x": &one}); err != nil {
		t.Fatal(err)
	}
	leases := kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases("default")
	for _, leader := range []*replica{a, b} {
		if err := leases.Delete(t.Context(), a.lease.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the Lease is made again", func() bool {
			l, err := leases.Get(t.Context(), a.lease.Name, metav1.GetOptions{})
			return err == nil && l.Annotations["x"] == "1" && holder(l) == leader.Identity
		})
		if leader == a {
			a.stop()
			b.awaitLeads()
		}
	}
}

func TestALeaseWithHostileContentIsTakenOver(t *testing.T) {
	config := cluster(t)
	leases := kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases("default")
	past, second, empty, other := metav1.NewMicroTime(time.Unix(0, 0)), int32(1), "", "x"
	for name, spec := range map[string]coordinationv1.LeaseSpec{
		"nothing":                {},
		"no holder":              {HolderIdentity: &empty, LeaseDurationSeconds: &second},
		"a holder without times": {HolderIdentity: &other},
		"times of 1970":          {HolderIdentity: &other, LeaseDurationSeconds: &second, RenewTime: &past, AcquireTime: &past},
	} {
		t.Run(name, func(t *testing.T) {
			_ = leases.Delete(t.Context(), "thole-shard-0", metav1.DeleteOptions{})
			for i := range 4 {
				l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("thole-shard-%d", i)}, Spec: spec}
				_ = leases.Delete(t.Context(), l.Name, metav1.DeleteOptions{})
				if _, err := leases.Create(t.Context(), l, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			a := newReplica(t, config, "a")
			a.awaitLeads()
			a.stop()
		})
	}
}

func TestAReplicaWhoseWatchIsBrokenTakesOver(t *testing.T) {
	config := cluster(t)
	a := newReplica(t, config, "a")
	a.awaitLeads()
	broken := rest.CopyConfig(config)
	broken.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if q := r.URL.Query(); q.Get("watch") != "" {
				return nil, errors.New("the watch is broken")
			}
			return next.RoundTrip(r)
		})
	})
	b := newReplica(t, broken, "b")
	t.Cleanup(neverBoth(t, a, b))
	a.awaitRequests(2 * int64(leaseDuration/retryPeriod))
	a.stop()
	b.awaitLeads()
}

// The Leases name a replica that has ended since.
func TestALeaderOutlivesARestoredAPIServer(t *testing.T) {
	cluster := devcluster.Start(t)
	config := cluster.Config
	a := newReplica(t, config, "a")
	a.awaitLeads()
	if err := cluster.Save("before"); err != nil {
		t.Fatal(err)
	}
	for i := range 300 { // so that the versions from before the restore are not reached again
		change(t, config, a, func(l *coordinationv1.Lease) { l.Labels = map[string]string{"n": fmt.Sprint(i)} })
	}
	a.awaitLeads()
	b, c := newReplica(t, config, "b"), newReplica(t, config, "c")
	t.Cleanup(neverBoth(t, b, c))
	await.Until(t, "b sees that a leads", func() bool { return b.lease.Holder() == a.Identity })
	a.stop()
	await.Until(t, "another one leads", func() bool { return b.lease.Leads() || c.lease.Leads() })
	if err := cluster.Restore("before"); err != nil {
		t.Fatal(err)
	}
	leases := kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases("default")
	await.Within(t, time.Minute, "one leads again", func() bool {
		l, err := leases.Get(t.Context(), a.lease.Name, metav1.GetOptions{})
		return err == nil && (holder(l) == "b" && b.lease.Leads() || holder(l) == "c" && c.lease.Leads())
	})
}

// Whoever does not see renewals cannot see that they have ended.
func TestAReplicaThatWasCutOffSeesRenewalsAgainSoon(t *testing.T) {
	config := cluster(t)
	a := newReplica(t, config, "a")
	a.awaitLeads()
	for name, err := range map[string]error{
		"refused":   errors.New("connection refused"),
		"forbidden": apierrors.NewForbidden(coordinationv1.Resource("leases"), "", nil),
	} {
		t.Run(name, func(t *testing.T) {
			var left atomic.Int64
			left.Store(12) // two for each attempt
			refused := rest.CopyConfig(config)
			refused.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if strings.HasSuffix(r.URL.Path, "/leases") && left.Add(-1) >= 0 {
						return nil, err
					}
					return next.RoundTrip(r)
				})
			})
			b := newReplica(t, refused, "b")
			await.Until(t, "requests of b were refused", func() bool { return left.Load() <= 0 })
			// An informer waits for 25 s or more after so many failures.
			await.Within(t, 15*time.Second, "b sees that a leads", func() bool { return b.lease.Holder() == a.Identity })
			b.stop()
		})
	}
}

func TestLeasesAreJoinedWhileTheElectionEnds(t *testing.T) {
	config := cluster(t)
	for range 20 {
		a := newReplica(t, config, "a")
		var joining sync.WaitGroup
		for i := range 8 {
			joining.Go(func() { _ = a.Of(fmt.Sprintf("p-%d", i), true) })
		}
		a.stop()
		joining.Wait()
	}
}

// 200 plugins on three replicas, at the default durations.
func TestThreeReplicasSendFewRequests(t *testing.T) {
	config := cluster(t)
	var requests atomic.Int64
	counted := rest.CopyConfig(config)
	counted.QPS = -1
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			requests.Add(1)
			return next.RoundTrip(r)
		})
	})
	var plugins []*Plugin
	for i := range 3 {
		e, err := New(Config{
			Client: leases(t, counted), Namespace: "default", Name: "thole", Identity: fmt.Sprint(i), Shards: 4,
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, Logger: hclog.NewNullLogger(),
		})
		if err != nil {
			t.Fatal(err)
		}
		for p := range 200 {
			plugins = append(plugins, e.Of(fmt.Sprintf("plugin-%d", p), false))
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); e.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
	}
	await.Until(t, "each plugin is led", func() bool {
		led := 0
		for _, p := range plugins {
			if p.Leads() {
				led++
			}
		}
		return led == 200
	})
	before, began := requests.Load(), time.Now()
	await.Poll(15*time.Second, func() bool { return false })
	perSecond := float64(requests.Load()-before) / time.Since(began).Seconds()
	t.Logf("%.1f requests a second", perSecond)
	if perSecond > 4 { // 4 Leases, renewed every 2 s, and twice as many for lost races
		t.Errorf("%.1f requests a second", perSecond)
	}
}
