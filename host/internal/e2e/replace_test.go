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
	"github.com/thole-dev/thole/internal/wasmbuild"
)

const testdata = "host/internal/e2e/testdata/"

func createStamp(t *testing.T, ns, name, text string) {
	t.Helper()
	create(t, stamps, "Stamp", ns, name, map[string]any{"text": text})
}

// The module is replaced several times while half of the objects change. In the
// end every object is as the last module wants it.
func TestObjectsConvergeWhenThePluginIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	first := wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"stamp1")
	second := wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"stamp2")
	d.install("stamp", first)
	p := start(t, d, ns, "")
	p.awaitRunning("stamp", 1)

	const many = 50
	want := make([]string, many)
	for i := range many {
		want[i] = "at first"
		createStamp(t, ns, fmt.Sprintf("s-%d", i), want[i])
	}
	stop := repeat(t, 2*time.Millisecond, func(n int) error {
		i := rand.IntN(many / 2)
		want[i] = fmt.Sprintf("change %d", n)
		return patchSpec(t.Context(), stamps, ns, fmt.Sprintf("s-%d", i), "text", want[i])
	})
	for i, module := range [][]byte{second, first, second} {
		d.install("stamp", module)
		p.awaitRunning("stamp", i+2)
	}
	stop()

	await.Until(t, "every object is as the last module wants it", func() bool {
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

func TestReplacedPluginRunsEachObjectOnce(t *testing.T) {
	t.Parallel()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	module := wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"stamp1")
	d.install("stamp", module)
	p := start(t, d, ns, "")
	p.awaitRunning("stamp", 1)
	const many = 300
	for i := range many {
		createStamp(t, ns, fmt.Sprintf("s-%d", i), "same")
	}
	await.Until(t, "every object is ready", func() bool {
		all := list(t, stamps, ns)
		return len(all) == many && !slices.ContainsFunc(all, func(o unstructured.Unstructured) bool { return !ready(&o) })
	})
	// Events of the host's own writes arrive late, but in order: once the ConfigMap
	// of the newest object has caused a run, those of all others have.
	createStamp(t, ns, "newest", "same")
	p.awaitReconciled(t, 0, 0, "stamp "+ns+"/newest")
	var detector idleDetector
	await.Until(t, "the host is idle", func() bool { return detector.idle(p.Metrics()) })
	var section tck.Module
	section.Custom("again", []byte("1")) // changes the digest and nothing else
	d.install("stamp", append(slices.Clip(module), section.Bytes()[8:]...))
	p.awaitRunning("stamp", 2)
	runs := func() map[string]int { // of the new revision, by object
		counts := map[string]int{}
		for _, run := range p.Log.Since(0).Reconciled("plugin", "stamp") {
			if run["revision"] == 2.0 {
				counts[run.String("object")]++
			}
		}
		return counts
	}
	await.Until(t, "the new revision has run for every object", func() bool { return len(runs()) == many+1 })
	// Further runs would be in the queue by now, before that of another object.
	createStamp(t, ns, "last", "same")
	await.Until(t, "another object is ready", func() bool { return ready(get(t, stamps, ns, "last")) })
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

// repeat calls a function with 0, 1, 2 ... in a goroutine, with a pause after each
// call, until stop is called, the test ends, or the function returns an error,
// which fails the test. No call is in progress after stop has returned.
func repeat(t *testing.T, pause time.Duration, call func(n int) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if err := call(n); err != nil {
				if t.Context().Err() == nil { // else the test has ended
					t.Errorf("repeated change: %v", err)
				}
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	})
	stop = func() {
		cancel()
		wg.Wait()
	}
	t.Cleanup(stop)
	return stop
}
