package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// TestAtRestNothingIsWritten is the measure of a controller that loops on
// itself: three resyncs in 30 s and no write, then one change and no more
// writes than it needs.
func TestAtRestNothingIsWritten(t *testing.T) {
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p := thole(t, d, ns, "resync: 8s")
	p.ready("podmanager", 1)
	for i := range 3 {
		primary(t, podManagers, "PodManager", ns, fmt.Sprintf("pm-%d", i), map[string]any{"image": "a:1"})
	}
	eventually(t, "all are Ready", func() bool {
		for i := range 3 {
			pm := get(t, podManagers, ns, fmt.Sprintf("pm-%d", i))
			if !ready(pm) || field(pm, "status", "podCreated") == "" {
				return false
			}
		}
		return true
	})

	runs := func() int { return count(p, "reconciled") }
	first, before := runs(), requests(t, "podmanagers", "pods")
	start := time.Now()
	within(t, time.Minute, "30 s and three resyncs", func() bool {
		return time.Since(start) > 30*time.Second && runs() >= first+9
	})
	rest := since(before, requests(t, "podmanagers", "pods"))
	if n := writes(rest); n != 0 {
		t.Errorf("%d writes at rest: %v", n, rest)
	}

	// A watch tells when the change has been taken up, so that this test
	// reads nothing itself.
	watch, err := objects.Resource(podManagers).Namespace(ns).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=pm-0"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	first, before = runs(), requests(t, "podmanagers", "pods")
	if err := patchSpec(t.Context(), podManagers, ns, "pm-0", "image", "a:2"); err != nil {
		t.Fatal(err)
	}
	timeout := time.After(30 * time.Second)
	for done := false; !done; {
		select {
		case e := <-watch.ResultChan():
			o, ok := e.Object.(*unstructured.Unstructured)
			done = ok && o.GetGeneration() == 2 && ready(o)
		case <-timeout:
			t.Fatal("the change was not taken up in 30 s")
		}
	}
	eventually(t, "the run that the Pod's change leads to", func() bool { return runs() >= first+2 })
	change := since(before, requests(t, "podmanagers", "pods"))
	if n := writes(change) - 1; n > 2 { // without this test's own patch
		t.Errorf("%d writes for one change: %v", n, change)
	}
	if change["GET"]+change["LIST"] != 0 {
		t.Errorf("reads beside the watches: %v", change)
	}
	p.expectNoErrors()
}

// count returns how many lines with that message the log has.
func count(p *process, message string) int {
	n := 0
	for _, line := range p.output.lines() {
		if line["@message"] == message {
			n++
		}
	}
	return n
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
	within(t, 2*time.Minute, "all 300 are Ready", func() bool {
		n := 0
		for _, pm := range list(t, podManagers, ns) {
			if ready(&pm) && field(&pm, "status", "podCreated") != "" {
				n++
			}
		}
		return n == many
	})
	t.Logf("all Ready %s after the last was created", time.Since(start).Round(time.Millisecond))
	p.stop()
	p.expectNoErrors()
}
