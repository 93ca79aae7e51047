package election

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/thole-dev/thole/host/internal/await"
)

// An elector of client-go and one of this package share a Lease: whichever holds it, the other one waits until it is
// released, or has expired.
func TestElectorsOfClientGoTakePart(t *testing.T) {
	config := cluster(t)
	a := newReplica(t, config, "a", longLease)
	a.awaitLeads()
	b := startClientGo(t, config, a.lease.Name, "b")
	a.awaitRequests(4)
	if !a.leads() || b.leads() {
		t.Fatalf("a leads: %v, b leads: %v", a.leads(), b.leads())
	}
	a.stop()
	await.Until(t, "b leads", b.leads)

	c := newReplica(t, config, "c", longLease)
	await.Until(t, "c has seen who leads", func() bool { return c.plugin.Leader() == "b" })
	if c.leads() {
		t.Error("c leads, too")
	}
	b.stop()
	c.awaitLeads()
	if b.leads() {
		t.Error("b still leads")
	}
}

// clientGo is a replica of another program.
type clientGo struct {
	elector *leaderelection.LeaderElector
	stop    func()
}

func (c *clientGo) leads() bool { return c.elector.IsLeader() }

func startClientGo(t *testing.T, config *rest.Config, lease, identity string) *clientGo {
	t.Helper()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: lease},
			Client:     kubernetes.NewForConfigOrDie(config).CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: time.Minute, RenewDeadline: 50 * time.Second, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); elector.Run(ctx) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return &clientGo{elector, stop}
}
