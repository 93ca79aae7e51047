package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with/standard"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// fastElection makes a replica take over within 10 s, and at once from one that stops. A leader that has to wait
// for some seconds goes on to lead.
const fastElection = "leaderElect: true, resourceNamespace: default, leaseDuration: 10s, renewDeadline: 8s, retryPeriod: 300ms"

// startReplica starts a host that shares its plugins, with further fields of how it does.
func startReplica(t *testing.T, cluster *rest.Config, further string) *runningHost {
	t.Helper()
	return startWith(t, cluster, standard.Capabilities(), func(c *config.Config) {
		c.Values = sections(t, "leaderElection: {"+fastElection+", "+further+"}")
	})
}

// state returns the status of the plugin podmanager.
func (r *runningHost) status() runner.PluginStatus {
	for _, s := range r.host.Plugins() {
		if s.Name == "podmanager" {
			return s
		}
	}
	return runner.PluginStatus{}
}

func (r *runningHost) awaitState(want catalog.State) {
	r.t.Helper()
	await.Until(r.t, fmt.Sprintf("the plugin is %s", want), func() bool { return r.status().State == want })
}

// podManagerCluster returns a cluster with the CRD of podmanager, its module and its objects.
func podManagerCluster(tb testing.TB) (cluster *rest.Config, wasm []byte, objects dynamic.ResourceInterface) {
	tb.Helper()
	cluster = controlPlane(tb)
	wasm = wasmbuild.Build(tb, wasmbuild.TinyGo, "plugins/podmanager")
	client := dynamic.NewForConfigOrDie(cluster)
	apply(tb, client.Resource(crds), "../plugins/podmanager/crd.yaml")
	return cluster, wasm, client.Resource(podManagers).Namespace("default")
}

func TestAStandbyTakesOverAtOnceFromALeaderThatStops(t *testing.T) {
	cluster, wasm, samples := podManagerCluster(t)
	replica := func() *runningHost {
		r := startReplica(t, cluster, "")
		r.install("podmanager", wasm)
		return r
	}
	leader := replica()
	leader.awaitState(catalog.Running)
	apply(t, samples, "../plugins/podmanager/sample.yaml")
	for i := range 3 {
		standby := replica()
		standby.awaitState(catalog.Standby)
		if s := standby.status(); s.Leader == "" || s.Leader != leader.status().Leader || s.Problems != nil {
			t.Errorf("the standby shows %+v", s)
		}
		image := fmt.Sprintf("nginx:%d", i)
		handedOver := time.Now()
		if err := leader.end(); err != nil {
			t.Fatal(err)
		}
		patch := fmt.Sprintf(`{"spec":{"image":%q}}`, image)
		if _, err := samples.Patch(t.Context(), "sample", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the standby has taken over", func() bool {
			o, err := samples.Get(t.Context(), "sample", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
			return observed == o.GetGeneration()
		})
		t.Logf("handed over after %s", time.Since(handedOver))
		standby.awaitState(catalog.Running)
		leader = standby
	}
}

// depth returns how many keys are due in the replica.
func (r *runningHost) depth() (n float64) {
	r.t.Helper()
	families, err := r.host.metrics.Registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "workqueue_depth" {
			continue
		}
		for _, m := range f.GetMetric() {
			n += m.GetGauge().GetValue()
		}
	}
	return n
}

// The leader does what there is to do, and a standby must not keep in memory what has changed:
// all objects are due when it leads.
func TestTheQueueOfAStandbyStaysEmpty(t *testing.T) {
	cluster, wasm, samples := podManagerCluster(t)
	leader := startReplica(t, cluster, "")
	leader.install("podmanager", wasm)
	leader.awaitState(catalog.Running)
	apply(t, samples, "../plugins/podmanager/sample.yaml")
	standby := startReplica(t, cluster, "")
	standby.install("podmanager", wasm)
	standby.awaitState(catalog.Standby)
	awaitRecord(t, cluster, "that the standby runs the same", func(of catalog.Record) bool { return of.Running == standby.status().Digest })
	sample, err := samples.Get(t.Context(), "sample", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	observed := func(name string) bool {
		o, err := samples.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		return n == o.GetGeneration()
	}
	const objects = 20
	for i := range objects {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": sample.GetAPIVersion(), "kind": sample.GetKind(), "spec": sample.Object["spec"]}}
		o.SetName(fmt.Sprint("other-", i))
		if _, err := samples.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range objects {
		name := fmt.Sprint("other-", i)
		await.Until(t, "the leader has reconciled "+name, func() bool { return observed(name) })
		if i > 0 {
			if err := samples.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := standby.depth(); n != 0 {
		t.Errorf("%v keys are due in the standby", n)
	}
	if err := leader.end(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sample", "other-0"} {
		if _, err := samples.Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"spec":{"image":"nginx:changed"}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the standby has reconciled "+name, func() bool { return observed(name) })
	}
}

// Each plugin has a Lease of its own, so that there are two to share.
func TestReplicasShareThePlugins(t *testing.T) {
	cluster, podmanager, _ := podManagerCluster(t)
	ttl, err := os.ReadFile("../plugins/ttl/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policies := map[string]string{"podmanager": "apiVersion: thole.dev/v1alpha1\n", "ttl": string(ttl)}
	plugins := map[string][]byte{"podmanager": podmanager, "ttl": wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/ttl")}
	replica := func() *runningHost {
		r := startWith(t, cluster, standard.Capabilities(), func(c *config.Config) {
			c.Values = sections(t, "leaderElection: {"+fastElection+"}")
			c.Allow = config.Ceiling{Entries: map[string]rights.Entries{config.EveryPlugin: rights.Everything()}}
		})
		for name, wasm := range plugins {
			writeText(t, filepath.Join(r.dir, name+".yaml"), policies[name]+"\nleaderElection: {ownLease: true}\n")
			r.install(name, wasm)
		}
		return r
	}
	states := func(r *runningHost) (all []catalog.State) {
		for _, s := range r.host.Plugins() {
			all = append(all, s.State)
		}
		slices.Sort(all)
		return all
	}
	both, one := []catalog.State{catalog.Running, catalog.Running}, []catalog.State{catalog.Running, catalog.Standby}
	a := replica()
	await.Until(t, "a runs both", func() bool { return slices.Equal(states(a), both) })
	b := replica()
	await.Until(t, "each runs one", func() bool { return slices.Equal(states(a), one) && slices.Equal(states(b), one) })
	await.Until(t, "both show who leads", func() bool {
		ofA, ofB := a.host.Plugins(), b.host.Plugins()
		return !slices.ContainsFunc([]int{0, 1}, func(i int) bool {
			return ofA[i].State == ofB[i].State || ofA[i].Leader != ofB[i].Leader || ofA[i].Leader == ""
		})
	})
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "b runs both", func() bool { return slices.Equal(states(b), both) })
}
