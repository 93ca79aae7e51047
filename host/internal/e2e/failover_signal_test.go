package e2e

import (
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// startDelayed starts a replica whose next write of a ConfigMap is sent and takes so long, and
// returns when that has begun. One run before it has succeeded.
func startDelayed(t *testing.T, delay string) (*process, string) {
	t.Helper()
	installCRD(t, testdata+"echo/crd.yaml")
	ns, d, proxy := namespace(t), newDirectory(t), tholetest.NewProxy(t, cluster.Config)
	d.install("echo", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"echo"))
	p := start(t, d, ns, "", withKubeconfig(proxy.Kubeconfig), func(h *tholetest.Host) {
		h.Args = append(h.Args, "--leader-elect", "--leader-elect-resource-namespace="+ns)
	})
	create(t, echoes, "Echo", ns, echoName(0), map[string]any{"revision": int64(1), "text": "text"})
	await.Until(t, "the object is Ready", func() bool { return ready(get(t, echoes, ns, echoName(0))) })
	must(t, proxy.SetRules("apply configmaps delay="+delay))
	must(t, patch(t.Context(), echoes, ns, echoName(0), `{"spec":{"revision":2}}`))
	await.Until(t, "the write is sent", func() bool { return proxy.Rules()[0].Matched > 0 })
	return p, ns
}

// holders returns how many Leases are held.
func holders(t *testing.T, ns string) (n int) {
	t.Helper()
	leases, err := clients.CoordinationV1().Leases(ns).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, lease := range leases.Items {
		if isHeld(&lease) {
			n++
		}
	}
	return n
}

func isHeld(lease *coordinationv1.Lease) bool {
	return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
}

// The Lease is held until a run in progress has written, and then it is given up.
func TestLeaseIsGivenUpAfterTheLastWrite(t *testing.T) {
	t.Parallel()
	p, ns := startDelayed(t, "3s")
	watch, err := clients.CoordinationV1().Leases(ns).Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	defer watch.Stop()
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- p.Stop() }()
	for e := range watch.ResultChan() {
		if lease, ok := e.Object.(*coordinationv1.Lease); ok && !isHeld(lease) {
			break
		}
	}
	if revision := field(get(t, configMaps, ns, echoName(0)), "data", "revision"); revision != "2" {
		t.Errorf("the Lease was given up after %s, and the write has not arrived: revision %s", time.Since(began), revision)
	}
	must(t, <-ended) // with exit code 0
	if !ready(get(t, echoes, ns, echoName(0))) {
		t.Error("the run has not ended with its status")
	}
}

// A run that does not end is cut off, and the Lease is given up then.
func TestRunThatDoesNotEndIsCutOffAfterTheGraceTime(t *testing.T) {
	t.Parallel()
	p, ns := startDelayed(t, "1h")
	began := time.Now()
	p.stop()
	if took := time.Since(began); took < 5*time.Second || took > 30*time.Second {
		t.Errorf("the host ended after %s", took)
	}
	if n := holders(t, ns); n != 0 {
		t.Errorf("%d Leases are still held", n)
	}
}

// Nobody knows whether what is in progress arrives, so the Lease has to expire.
func TestSecondSignalEndsTheHostAtOnce(t *testing.T) {
	t.Parallel()
	p, ns := startDelayed(t, "1h")
	p.Signal(syscall.SIGTERM)
	<-time.After(time.Second)
	if err := p.Exited(); err != nil {
		t.Fatalf("the host has not waited for the run: %v", err)
	}
	began := time.Now()
	// A signal that comes while the one before is still pending is none.
	await.Within(t, 5*time.Second, "the host has ended", func() bool {
		p.Signal(syscall.SIGTERM)
		return p.Exited() != nil
	})
	t.Logf("ended after %s", time.Since(began))
	p.kill() // it has ended
	if n := holders(t, ns); n != 1 {
		t.Errorf("%d Leases are held, want 1", n)
	}
}
