package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/with/standard"
)

// BenchmarkFailOver measures how soon a replica reconciles that takes over from a leader that
// is told to stop, with 5,000 PodManagers and their Pods in its cache. All of them are due
// then, and one of them is changed while nobody leads. The replica has been ready for a moment,
// or for so long that it has freed the instances and the code of the plugin. Each figure is the
// median and the maximum of several times:
//
//	hand-over-p50-ms, -max-ms  from the end of the leader's context until the other one leads
//	first-run-   from then until the first run has ended
//	edit-        from then until the run has ended that wrote for the changed object
//	all-         from then until each object was reconciled
//
// It takes nine minutes, and measures once, whatever -count is.
func BenchmarkFailOver(b *testing.B) {
	f, measured := newElectedFleet(b, 5000), map[string]bool{}
	for _, c := range []struct {
		name  string
		times int
		ready func(*timedReplica) bool
	}{
		{"standby=new", 20, (*timedReplica).isStandby},
		{"standby=idle", 3, (*timedReplica).isIdle},
	} {
		b.Run(c.name, func(b *testing.B) {
			defer b.ReportMetric(0, "ns/op")
			if measured[c.name] {
				return
			}
			measured[c.name] = true
			for b.Loop() {
				f.measure(b, c.times, c.ready)
			}
		})
	}
}

// measure lets one replica after the other take over, each when it is ready.
func (f *electedFleet) measure(b *testing.B, times int, ready func(*timedReplica) bool) {
	b.Helper()
	took := map[string][]time.Duration{}
	leader := f.start(b)
	leader.await("each object was reconciled", func() bool { return len(leader.reconciled) == f.objects })
	for n := range times {
		standby := f.start(b)
		await.Within(b, 10*time.Minute, "the other replica is ready to take over", func() bool { return ready(standby) })
		edited := fmt.Sprintf("pm-%d", (n+1)*f.objects/times-1)
		leader.stopped = func() { f.edit(b, edited) }
		told := time.Now()
		if err := leader.end(); err != nil {
			b.Fatal(err)
		}
		standby.await("each object was reconciled", func() bool {
			return len(standby.reconciled) == f.objects && !standby.written["default/"+edited].IsZero()
		})
		f.expectServed(b, edited)
		took["hand-over"] = append(took["hand-over"], standby.led.Sub(told))
		took["first-run"] = append(took["first-run"], standby.first.Sub(standby.led))
		took["edit"] = append(took["edit"], standby.written["default/"+edited].Sub(standby.led))
		took["all"] = append(took["all"], standby.last.Sub(standby.led))
		leader = standby
	}
	if err := leader.end(); err != nil {
		b.Fatal(err)
	}
	for name, all := range took {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2].Seconds()*1000, name+"-p50-ms")
		b.ReportMetric(all[len(all)-1].Seconds()*1000, name+"-max-ms")
	}
}

// electedFleet is many PodManagers, and the directory of the replicas that reconcile them.
type electedFleet struct {
	objects int
	cluster *rest.Config
	samples dynamic.ResourceInterface
	plugins string // the directory
	cache   string // of compiled code
}

func newElectedFleet(b *testing.B, objects int) *electedFleet {
	b.Helper()
	cluster, wasm, samples := podManagerCluster(b)
	f := &electedFleet{objects, cluster, samples, b.TempDir(), b.TempDir()}
	await.Until(b, "the kind is served", func() bool {
		_, err := f.samples.List(b.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	})
	if err := os.WriteFile(filepath.Join(f.plugins, "podmanager.wasm"), wasm, 0o644); err != nil {
		b.Fatal(err)
	}
	var creating errgroup.Group
	creating.SetLimit(8)
	for i := range objects {
		creating.Go(func() error {
			o := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": podManagers.GroupVersion().String(), "kind": "PodManager",
				"metadata": map[string]any{"name": fmt.Sprintf("pm-%d", i)}, "spec": map[string]any{"image": "nginx"},
			}}
			_, err := f.samples.Create(b.Context(), o, metav1.CreateOptions{})
			return err
		})
	}
	if err := creating.Wait(); err != nil {
		b.Fatal(err)
	}
	return f
}

// edit changes the spec of an object.
func (f *electedFleet) edit(b *testing.B, name string) {
	b.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"image":"nginx:%d"}}`, time.Now().UnixNano())
	if _, err := f.samples.Patch(b.Context(), name, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		b.Error(err)
	}
}

// expectServed expects that the status of an object is about its spec.
func (f *electedFleet) expectServed(b *testing.B, name string) {
	b.Helper()
	o, err := f.samples.Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	if observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); observed != o.GetGeneration() {
		b.Fatalf("the status of %s is of generation %d, want %d", name, observed, o.GetGeneration())
	}
}

// timedReplica is a replica that notes when it leads and what it reconciles.
type timedReplica struct {
	b       *testing.B
	host    *Host
	end     func() error
	stopped func() // called when it runs nothing any more, and has not given up its Leases yet

	mu               sync.Mutex
	led, first, last time.Time            // when it began to lead, and its runs ended
	reconciled       map[string]bool      // by object
	written          map[string]time.Time // when the first run ended that wrote, by object
}

func (f *electedFleet) start(b *testing.B) *timedReplica {
	b.Helper()
	r := &timedReplica{b: b, reconciled: map[string]bool{}, written: map[string]time.Time{}, stopped: func() {}}
	c := config.Config{Plugins: f.plugins, Listen: "127.0.0.1:0", HostIdentity: true, CacheDir: f.cache}
	c.Values = sections(b, "leaderElection: {leaderElect: true, resourceNamespace: default, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 300ms}")
	r.host, r.end = run(b, c, Environment{
		Cluster: f.cluster, Logger: hclog.New(&hclog.LoggerOptions{Output: r, JSONFormat: true}), Events: r, Version: "test", Capabilities: standard.Capabilities(),
	})
	return r
}

// isStandby reports whether the replica could take over at once.
func (r *timedReplica) isStandby() bool {
	plugins := r.host.Plugins()
	return len(plugins) == 1 && plugins[0].State == catalog.Standby
}

// isIdle reports whether the replica could take over, but has freed all of the plugin that it can
// load again.
func (r *timedReplica) isIdle() bool {
	if !r.isStandby() {
		return false
	}
	loaded := r.host.Plugins()[0].Sandbox
	return loaded != nil && loaded.Idle == 0 && !loaded.Compiled
}

// await waits until done returns true, which is called with r.mu held.
func (r *timedReplica) await(what string, done func() bool) {
	r.b.Helper()
	await.Until(r.b, what, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return done()
	})
}

// Write takes a line of the log.
func (r *timedReplica) Write(line []byte) (int, error) {
	if now := time.Now(); bytes.Contains(line, []byte(`"this replica leads"`)) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.led = now
	}
	return len(line), nil
}

// Observe implements [events.Observer].
func (r *timedReplica) Observe(e events.Event) {
	now := time.Now()
	switch e := e.(type) {
	case events.HostStopped:
		r.stopped()
	case events.RunEnded:
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.first.IsZero() {
			r.first = now
		}
		if !r.reconciled[e.Object] {
			r.reconciled[e.Object], r.last = true, now
		}
		if r.written[e.Object].IsZero() && e.Writes > 0 {
			r.written[e.Object] = now
		}
	default:
	}
}
