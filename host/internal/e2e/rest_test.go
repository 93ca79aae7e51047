package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// TestAtRestNothingIsWritten is the measure of a controller that loops on
// itself: three resyncs in 30 s and no write, then one change and no more
// writes than it needs.
func TestAtRestNothingIsWritten(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p, asked := counted(t, d, ns, "resync: 8s")
	p.ready("podmanager", 1)
	for i := range 3 {
		primary(t, podManagers, "PodManager", ns, fmt.Sprintf("pm-%d", i), map[string]any{"image": "a:1"})
	}
	await.Until(t, "all are Ready", func() bool {
		for i := range 3 {
			if !wellKnown(get(t, podManagers, ns, fmt.Sprintf("pm-%d", i))) {
				return false
			}
		}
		return true
	})

	did := func() tholetest.Counts { return asked.Done("podmanagers", "pods") }
	before, mark, start := did(), p.Log.Mark(), time.Now()
	await.Until(t, "30 s and three resyncs", func() bool {
		return time.Since(start) > 30*time.Second && runs(p, mark) >= 9
	})
	if rest := did().Since(before); rest.Writes() != 0 {
		t.Errorf("writes at rest: %v", rest)
	}

	before = did()
	if err := patchSpec(t.Context(), podManagers, ns, "pm-0", "image", "a:2"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the change is taken up", func() bool {
		return wellKnown(get(t, podManagers, ns, "pm-0")) && image(get(t, pods, ns, "pm-0")) == "a:2"
	})
	mark = p.Log.Mark()
	annotate(t, podManagers, ns, "pm-0", "example.com/again", "x") // another run, after all that the change led to
	logged(t, p, mark, 0, "podmanager "+ns+"/pm-0")
	change := did().Since(before)
	if change.Writes() > 2 {
		t.Errorf("writes for one change: %v", change)
	}
	if change.Reads() != 0 {
		t.Errorf("reads beside the watches: %v", change)
	}
	p.expectNoErrors()
}

// wellKnown says whether a PodManager is Ready and has told its Pod, which it
// does in a run of its own.
func wellKnown(pm *unstructured.Unstructured) bool {
	return ready(pm) && field(pm, "status", "podCreated") != ""
}

// runs counts the runs that have ended well since a mark.
func runs(p *process, mark int) int {
	return len(tholetest.With(p.Log.Since(mark), "reconciled"))
}

// TestManyAtOnce creates 300 objects as fast as the API server takes them.
func TestManyAtOnce(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p := thole(t, d, ns, "limits: {writesPerSecond: 500, writeBurst: 500}")
	p.ready("podmanager", 1)
	const many = 300
	for i := range many {
		primary(t, podManagers, "PodManager", ns, fmt.Sprintf("pm-%d", i), map[string]any{"image": "a:1"})
	}
	start := time.Now()
	await.Within(t, 5*await.Limit, "all 300 are Ready", func() bool {
		all := list(t, podManagers, ns)
		return !slices.ContainsFunc(all, func(pm unstructured.Unstructured) bool { return !wellKnown(&pm) })
	})
	t.Logf("all Ready %s after the last was created", time.Since(start).Round(time.Millisecond))
	p.stop()
	p.expectNoErrors()
}
