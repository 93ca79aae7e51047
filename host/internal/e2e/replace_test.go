package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

const stampDir = "host/internal/e2e/testdata/"

// TestAPluginIsReplacedWhileObjectsChange swaps the file under load: the new
// code runs, and every object, changed or not, ends as it wants.
func TestAPluginIsReplacedWhileObjectsChange(t *testing.T) {
	installCRD(t, stampDir+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	first := wasmbuild.Build(t, wasmbuild.TinyGo, stampDir+"stamp1")
	second := wasmbuild.Build(t, wasmbuild.TinyGo, stampDir+"stamp2")
	d.install("stamp", first)
	p := thole(t, d, ns, "limits: {writesPerSecond: 500, writeBurst: 500}")
	p.ready("stamp", 1)

	const many = 50
	want := make([]string, many)
	for i := range many {
		want[i] = "at first"
		primary(t, stamps, "Stamp", ns, fmt.Sprintf("s-%d", i), map[string]any{"text": want[i]})
	}
	stop := keepChanging(t, ns, want[:many/2]) // the other half stays as it is
	d.install("stamp", second)
	p.ready("stamp", 2)
	d.install("stamp", first)
	p.ready("stamp", 3)
	d.install("stamp", second)
	p.ready("stamp", 4)
	stop()

	await.Until(t, "every object is as the new code wants", func() bool {
		all, children := byName(list(t, stamps, ns)), byName(list(t, configMaps, ns))
		for i := range many {
			name := fmt.Sprintf("s-%d", i)
			child, stamp := children[name], all[name]
			if !ready(stamp) || field(stamp, "status", "version") != "2" ||
				field(child, "data", "version") != "2" || field(child, "data", "text") != want[i] {
				return false
			}
		}
		return true
	})
	p.stop()
	p.expectNoErrors()
}

// TestASwapRunsEachObjectOnce: new code has to see every object, and once is
// enough.
func TestASwapRunsEachObjectOnce(t *testing.T) {
	installCRD(t, stampDir+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	code := wasmbuild.Build(t, wasmbuild.TinyGo, stampDir+"stamp1")
	d.install("stamp", code)
	p := thole(t, d, ns, "limits: {writesPerSecond: 500, writeBurst: 500}")
	p.ready("stamp", 1)
	const many = 300
	for i := range many {
		primary(t, stamps, "Stamp", ns, fmt.Sprintf("s-%d", i), map[string]any{"text": "same"})
	}
	await.Until(t, "every object is ready", func() bool {
		all := list(t, stamps, ns)
		return len(all) == many && !slices.ContainsFunc(all, func(o unstructured.Unstructured) bool { return !ready(&o) })
	})
	// Events of what was written come late, but in their order: once the
	// ConfigMap of the newest one has led to a run, those of all others have.
	primary(t, stamps, "Stamp", ns, "newest", map[string]any{"text": "same"})
	logged(t, p, 0, 0, "stamp "+ns+"/newest")
	var r lull
	await.Until(t, "the host rests", func() bool {
		_, text := p.Ask("/metrics")
		return r.isOne(metrics(text))
	})
	var stamp tck.Module // another digest that does the same
	stamp.Custom("again", []byte("1"))
	d.install("stamp", append(slices.Clip(code), stamp.Bytes()[8:]...))
	p.ready("stamp", 2)
	runs := func() map[string]int {
		of := map[string]int{}
		for _, line := range p.Log.With("reconciled", "plugin", "stamp") {
			if line["generation"] == 2. {
				of[line.String("object")]++
			}
		}
		return of
	}
	await.Until(t, "every object has run under the new code", func() bool { return len(runs()) == many+1 })
	// What was still in the queue is ahead of what comes now.
	primary(t, stamps, "Stamp", ns, "last", map[string]any{"text": "same"})
	await.Until(t, "one more is ready", func() bool { return ready(get(t, stamps, ns, "last")) })
	for object, n := range runs() {
		if n > 1 && object != ns+"/last" {
			t.Errorf("%s ran %d times", object, n)
		}
	}
	p.stop()
}

func byName(all []unstructured.Unstructured) map[string]*unstructured.Unstructured {
	byName := map[string]*unstructured.Unstructured{}
	for i := range all {
		byName[all[i].GetName()] = &all[i]
	}
	return byName
}

// keepChanging edits the objects in turn, as fast as the API server takes it,
// until the returned function is called; want holds what was written last.
func keepChanging(t *testing.T, ns string, want []string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			i := rand.IntN(len(want))
			text := fmt.Sprintf("change %d", n)
			if err := patchSpec(t.Context(), stamps, ns, fmt.Sprintf("s-%d", i), "text", text); err != nil {
				t.Errorf("change an object: %v", err)
				return
			}
			want[i] = text
			<-time.After(2 * time.Millisecond)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
