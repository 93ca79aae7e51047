package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// A controller that triggers itself writes again and again. This one must write
// nothing in 30 s with three resyncs, and after one change no more than the change
// needs.
func TestIdleHostWritesNothing(t *testing.T) {
	t.Parallel()
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p, proxy := startWithProxy(t, d, ns, "resync: 8s")
	p.awaitRunning("podmanager", 1)
	for i := range 3 {
		createPodManager(t, ns, fmt.Sprintf("pm-%d", i), "a:1")
	}
	await.Until(t, "every object is Ready", func() bool { return allRecordPod(t, ns, 3) })
	var detector idleDetector
	await.Until(t, "the host is idle", func() bool { return detector.idle(p.Metrics()) })

	requests := func() tholetest.Counts { return proxy.Succeeded("podmanagers", "pods") }
	before, mark, begin := requests(), p.Log.Mark(), time.Now()
	await.Until(t, "30 s and three resyncs have passed", func() bool {
		return time.Since(begin) > 30*time.Second && len(p.Log.Since(mark).Reconciled()) >= 9
	})
	if counts := requests().Since(before); counts.Writes() != 0 {
		t.Errorf("writes of an idle host: %v", counts)
	}

	before = requests()
	must(t, patchSpec(t.Context(), podManagers, ns, "pm-0", "image", "a:2"))
	await.Until(t, "the change is applied", func() bool {
		return recordsPod(get(t, podManagers, ns, "pm-0")) && image(get(t, pods, ns, "pm-0")) == "a:2"
	})
	mark = p.Log.Mark()
	annotate(t, podManagers, ns, "pm-0", "example.com/again", "x") // its run comes after all that the change led to
	p.awaitReconciled(t, mark, 0, "podmanager "+ns+"/pm-0")
	change := requests().Since(before)
	if change.Writes() > 2 {
		t.Errorf("writes for one change: %v", change)
	}
	if change.Reads() != 0 {
		t.Errorf("reads besides the watches: %v", change)
	}
	p.expectNoErrors()
}

// allRecordPod reports whether n PodManagers exist and all are Ready and record
// their Pod.
func allRecordPod(t *testing.T, ns string, n int) bool {
	t.Helper()
	all := list(t, podManagers, ns)
	return len(all) == n && !slices.ContainsFunc(all, func(pm unstructured.Unstructured) bool { return !recordsPod(&pm) })
}

func TestManyObjectsCreatedAtOnceBecomeReady(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	p := startPodmanager(t, ns, "")
	const many = 300
	for i := range many {
		createPodManager(t, ns, fmt.Sprintf("pm-%d", i), "a:1")
	}
	begin := time.Now()
	await.Within(t, 5*await.Limit, "every object is Ready", func() bool { return allRecordPod(t, ns, many) })
	t.Logf("all are Ready %s after the last one was created", time.Since(begin).Round(time.Millisecond))
	p.stop()
	p.expectNoErrors()
}
