package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// startVanish starts the plugin vanish in a namespace of its own.
func startVanish(t *testing.T) (p *process, d directory, ns string) {
	t.Helper()
	installCRD(t, testdata+"stamp/crd.yaml")
	ns, d = namespace(t), newDirectory(t)
	d.install("vanish", wasmbuild.Build(t, wasmbuild.TinyGo, testdata+"vanish"))
	d.installPolicy("vanish", "allow: [{groups: [''], kinds: [ConfigMap], verbs: ['*']}]\nlimits: {writesPerSecond: 1000}")
	p = start(t, d, ns, allowAll)
	p.awaitRunning("vanish", 1)
	return p, d, ns
}

// race creates and deletes objects, each within 30 ms, and waits until there is none.
func race(t *testing.T, seed uint64, ns, prefix string, n int) {
	t.Helper()
	var workers sync.WaitGroup
	const parallel = 4
	for w := range parallel {
		random := rand.New(rand.NewPCG(seed, uint64(w)))
		workers.Go(func() {
			for i := w; i < n; i += parallel {
				name := fmt.Sprintf("%s%d", prefix, i)
				text := []string{"", "late"}[i/parallel%2]
				if err := tryCreate(t.Context(), stamps, "Stamp", ns, name, map[string]any{"text": text}); err != nil {
					t.Error(err)
					return
				}
				<-time.After(time.Duration(random.IntN(30_000)) * time.Microsecond) // the deletion races with the finalizer
				if err := objects.Resource(stamps).Namespace(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	await.Until(t, "there is no object", func() bool { return len(list(t, stamps, ns)) == 0 })
}

// orphans returns the ConfigMaps that are left of Stamps.
func orphans(t *testing.T, ns string) (names []string) {
	t.Helper()
	for _, c := range list(t, configMaps, ns) {
		if strings.HasPrefix(c.GetName(), "of-") {
			names = append(names, c.GetName())
		}
	}
	return names
}

// cleanups returns how often the cleanup of each uid has succeeded.
func (p *process) cleanups() map[string]int {
	var failed []string // the IDs of runs
	for _, line := range p.Log.Events("RunEnded") {
		if line.String("result") == "error" {
			failed = append(failed, line.String("reconcileID"))
		}
	}
	all := map[string]int{}
	for _, line := range p.Log.Events("GuestLogged") {
		if line.String("@message") == "cleaned" && !slices.Contains(failed, line.String("reconcileID")) {
			all[line.String("uid")]++
		}
	}
	return all
}

// vanished returns how many objects have vanished, and how many of them were cleaned up.
func (p *process) vanished() (all, cleaned float64) {
	m := p.Metrics()
	const name = "thole_vanished_objects_total"
	return m.Sum(name, "controller", "vanish/stamp"), m.Sum(name, "controller", "vanish/stamp", "result", "success")
}

// The API server deletes some of the objects although it has stored the finalizer
// (kubernetes#110521).
func TestEachObjectIsCleanedUpOnceHoweverSoonItIsDeleted(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	p, _, ns := startVanish(t)
	race(t, seed, ns, "s", 200)
	await.Until(t, "nothing is left", func() bool { return len(orphans(t, ns)) == 0 })
	for uid, n := range p.cleanups() {
		if n != 1 {
			t.Errorf("the cleanup of %s has succeeded %d times", uid, n)
		}
	}
	all, cleaned := p.vanished()
	t.Logf("%d objects had a cleanup, %v of them had vanished", len(p.cleanups()), cleaned)
	if all != cleaned {
		t.Errorf("%v cleanups are lost", all-cleaned)
	}
	p.stop()
	p.expectNoErrors()
}

func TestAnObjectWhoseFinalizerSomebodyRemovesIsNotCleanedUp(t *testing.T) {
	t.Parallel()
	p, _, ns := startVanish(t)
	createStamp(t, ns, "s", "stuck")
	await.Until(t, "the object is held and has run", func() bool {
		return len(orphans(t, ns)) == 1 && len(get(t, stamps, ns, "s").GetFinalizers()) == 1
	})
	remove(t, stamps, ns, "s")
	await.Until(t, "a cleanup has failed", func() bool { return len(p.Log.Events("RunEnded", "result", "error")) > 0 })
	must(t, patch(t.Context(), stamps, ns, "s", `{"metadata":{"finalizers":null}}`))
	await.Until(t, "the object is gone", func() bool { return get(t, stamps, ns, "s") == nil })

	createStamp(t, ns, "later", "") // its events come after those of the first one
	await.Until(t, "another one has run", func() bool { return len(orphans(t, ns)) == 2 })
	p.stop()
	if got := p.cleanups(); len(got) > 0 {
		t.Errorf("cleanups: %v", got)
	}
}

// What vanishes meanwhile may be left, and nothing else is wrong.
func TestObjectsMayVanishWhileTheHostIsStartedAnew(t *testing.T) {
	t.Parallel()
	p, d, ns := startVanish(t)
	var racing sync.WaitGroup
	racing.Go(func() { race(t, 1, ns, "s", 100) })
	await.Until(t, "there was a cleanup", func() bool { return len(p.cleanups()) > 0 })
	p.stop()
	p.expectNoErrors()
	p = start(t, d, ns, allowAll)
	racing.Wait()
	before := len(orphans(t, ns))
	race(t, 2, ns, "later", 50)
	await.Until(t, "nothing more is left", func() bool { return len(orphans(t, ns)) <= before })
	p.stop()
	p.expectNoErrors()
}
