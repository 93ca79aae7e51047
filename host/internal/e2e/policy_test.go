package e2e

import (
	"fmt"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// A new policy runs every object. If the host had forgotten what it has written, it
// would read it again.
func TestANewPolicyKeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p, proxy := startWithProxy(t, d, ns, "")
	p.awaitRunning("podmanager", 1)
	for i := range 3 {
		createPodManager(t, ns, fmt.Sprintf("pm-%d", i), "a:1")
	}
	await.Until(t, "every object is Ready", func() bool { return allRecordPod(t, ns, 3) })
	var detector idleDetector
	await.Until(t, "the host is idle", func() bool { return detector.idle(p.Metrics()) })

	requests := func() tholetest.Counts { return proxy.Succeeded("podmanagers", "pods") }
	before, runs, mark := requests(), p.Metrics().Sum("controller_runtime_reconcile_total"), p.Log.Mark()
	d.installPolicy("podmanager", "limits: {concurrency: 2, writesPerSecond: 100}\n")
	p.awaitRunning("podmanager", 2)
	p.awaitReconciled(t, mark, 0, "podmanager "+ns+"/pm-0", "podmanager "+ns+"/pm-1", "podmanager "+ns+"/pm-2")
	await.Until(t, "the runs are counted to those before", func() bool { // of a controller that is started anew they are not
		return p.Metrics().Sum("controller_runtime_reconcile_total") >= runs+3
	})
	if n := p.Metrics().Sum("controller_runtime_max_concurrent_reconciles"); n != 2 {
		t.Errorf("%v workers", n)
	}
	if counts := requests().Since(before); counts.Writes()+counts.Reads() != 0 {
		t.Errorf("requests for a new policy: %v", counts)
	}
	p.expectNoErrors()
}
