package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

var (
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
)

const (
	syncTo     = "configsync.thole.dev/namespaces"
	syncSource = "configsync.thole.dev/source"
	// manyWrites lets the API server be the limit.
	manyWrites = "limits: {writesPerSecond: 2000, writeBurst: 2000, concurrency: 8}\n"
	// atScale is how long 5,000 copies may take; on a machine at rest it is
	// half a minute.
	atScale = 5 * await.Limit
)

// configsync starts thole on all namespaces with the plugin and its policy.
func configsync(t *testing.T, d directory) (*process, *tholetest.Proxy) {
	t.Helper()
	policy, err := os.ReadFile(filepath.Join("..", "..", "..", "plugins", "configsync", "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, d.path, "configsync.yaml", string(policy))
	d.install("configsync", wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/configsync"))
	p, asked := counted(t, d, "", manyWrites+"allow: {crossNamespace: [configsync]}")
	p.ready("configsync", 1)
	return p, asked
}

// targets makes namespaces that the label e2e=name selects.
func targets(t *testing.T, name string, many int) (names []string) {
	t.Helper()
	for i := range many {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%02d", name, i), Labels: map[string]string{"e2e": name}}}
		if _, err := clients.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		names = append(names, ns.Name)
	}
	return names
}

// createSource makes a ConfigMap or a Secret that is to be copied.
func createSource(ctx context.Context, gvr schema.GroupVersionResource, ns, name, to, value string) error {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{syncTo: to}},
		"data":     map[string]any{"value": value, "same": strings.Repeat("x", 200)},
	}}
	if gvr == secrets {
		o.SetKind("Secret")
		o.Object["stringData"] = o.Object["data"]
		o.Object["type"] = "example.com/e2e"
		delete(o.Object, "data")
	}
	_, err := objects.Resource(gvr).Namespace(ns).Create(ctx, o, metav1.CreateOptions{})
	return err
}

// copies lists the copies of all sources, or of one, in the namespaces that
// targets has made for id.
func copies(t *testing.T, gvr schema.GroupVersionResource, id, selector string) map[types.NamespacedName]*unstructured.Unstructured {
	t.Helper()
	l, err := objects.Resource(gvr).List(t.Context(), metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[types.NamespacedName]*unstructured.Unstructured{}
	for i := range l.Items {
		o := &l.Items[i]
		if !strings.HasPrefix(o.GetNamespace(), id+"-") {
			continue
		}
		byName[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
	}
	return byName
}

// logged waits until a run of every object ended with so many writes, after
// the mark. An object is named with the controller: "secret ns/name".
func logged(t *testing.T, p *process, mark int, writes float64, objects ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, o := range objects {
		missing[o] = true
	}
	await.Within(t, atScale, fmt.Sprintf("a run with %v writes of each of %d objects", writes, len(objects)), func() bool {
		lines := p.Log.Since(mark)
		mark += len(lines)
		for _, line := range lines {
			if line["@message"] == "reconciled" && line["writes"] == writes {
				delete(missing, line.String("controller")+" "+line.String("object"))
			}
		}
		return len(missing) == 0
	})
}

// sources names the sources of both kinds as logged has them.
func sources(ns string, half int) (names []string) {
	for i := range half {
		for _, controller := range []string{"configmap", "secret"} {
			names = append(names, fmt.Sprintf("%s %s/source-%02d", controller, ns, i))
		}
	}
	return names
}

// TestConfigSyncAtScale is acceptance 4 of the issue: 100 sources and 50
// namespaces converge, a changed source costs one write per copy, a removed
// label prunes exactly the copies of that namespace, a restart costs nothing.
func TestConfigSyncAtScale(t *testing.T) {
	const half, many = 50, 50
	from := namespace(t)
	id := from // no other test has it
	to := targets(t, id, many)
	var wg sync.WaitGroup
	for _, gvr := range []schema.GroupVersionResource{configMaps, secrets} {
		wg.Go(func() {
			for i := range half {
				if err := createSource(t.Context(), gvr, from, fmt.Sprintf("source-%02d", i), "e2e="+id, fmt.Sprint(i)); err != nil {
					t.Errorf("create a source: %v", err)
				}
			}
		})
	}
	wg.Wait()

	start := time.Now()
	d := newDirectory(t)
	p, asked := configsync(t, d)
	did := func() tholetest.Counts { return asked.Done("configmaps", "secrets") }
	converged := func() bool {
		for _, gvr := range []schema.GroupVersionResource{configMaps, secrets} {
			if len(copies(t, gvr, id, syncSource)) != half*many {
				return false
			}
		}
		return true
	}
	await.Within(t, atScale, "every namespace has every copy", converged)
	t.Logf("%d copies after %s", 2*half*many, time.Since(start).Round(100*time.Millisecond))
	logged(t, p, 0, 0, sources(from, half)...)
	all := expectCopies(t, from, id, to, half)
	if counts := did(); counts["apply"] != 2*half*many || counts.Writes() != 2*half*many+2*half {
		t.Errorf("writes were %v, expected one apply per copy and one finalizer per source", counts)
	}

	t.Run("a changed source updates its copies alone", func(t *testing.T) {
		before, at := did(), p.Log.Mark()
		patch := `{"data":{"value":"changed","same":null,"new":"too"}}`
		if _, err := objects.Resource(configMaps).Namespace(from).Patch(t.Context(), "source-07", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		await.Within(t, atScale, "every copy is changed", func() bool {
			changed := 0
			for _, o := range copies(t, configMaps, id, syncSource+"="+from+".source-07") {
				data, _, _ := unstructured.NestedStringMap(o.Object, "data")
				if len(data) == 2 && data["value"] == "changed" && data["new"] == "too" {
					changed++
				}
			}
			return changed == many
		})
		logged(t, p, at, many, "configmap "+from+"/source-07")
		at = p.Log.Mark()
		annotate(t, configMaps, from, "source-07", "example.com/again", "x") // another run, after all that the change led to
		logged(t, p, at, 0, "configmap "+from+"/source-07")
		if counts := did().Since(before); counts["apply"] != many || counts.Writes() != many {
			t.Errorf("writes were %v, expected %d", counts, many)
		}
		expectUnchanged(t, all[configMaps], copies(t, configMaps, id, syncSource), func(n types.NamespacedName) bool { return n.Name != "source-07" })
		expectUnchanged(t, all[secrets], copies(t, secrets, id, syncSource), func(types.NamespacedName) bool { return true })
	})

	t.Run("a removed label prunes its copies alone", func(t *testing.T) {
		kept := copies(t, configMaps, id, syncSource)
		before, at := did(), p.Log.Mark()
		if _, err := objects.Resource(namespaces).Patch(t.Context(), to[3], types.MergePatchType, []byte(`{"metadata":{"labels":{"e2e":null}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		await.Within(t, atScale, "the namespace has no copy", func() bool {
			return len(copies(t, configMaps, id, syncSource)) == half*(many-1) && len(copies(t, secrets, id, syncSource)) == half*(many-1)
		})
		logged(t, p, at, 1, sources(from, half)...)
		if counts := did().Since(before); counts["delete"] != 2*half || counts.Writes() != 2*half {
			t.Errorf("writes were %v, expected %d deletions", counts, 2*half)
		}
		expectUnchanged(t, kept, copies(t, configMaps, id, syncSource), func(n types.NamespacedName) bool { return n.Namespace != to[3] })
		expectUnchanged(t, all[secrets], copies(t, secrets, id, syncSource), func(n types.NamespacedName) bool { return n.Namespace != to[3] })
	})

	p.stop()
	p.expectNoErrors()
	p, asked = configsync(t, d) // live on after the subtest
	t.Run("a restart writes nothing", func(t *testing.T) {
		logged(t, p, 0, 0, sources(from, half)...)
		if counts := did(); counts.Writes() != 0 {
			t.Errorf("writes were %v", counts)
		}
	})

	t.Run("a deleted source takes its copies along", func(t *testing.T) {
		remove(t, secrets, from, "source-11")
		await.Within(t, atScale, "the source and its copies are gone", func() bool {
			return get(t, secrets, from, "source-11") == nil && len(copies(t, secrets, id, syncSource+"="+from+".source-11")) == 0
		})
		if n := len(copies(t, secrets, id, syncSource)); n != (half-1)*(many-1) {
			t.Errorf("%d copies are left", n)
		}
	})
	p.stop()
	p.expectNoErrors()
}

// expectCopies compares every copy with its source.
func expectCopies(t *testing.T, from, id string, to []string, half int) map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured {
	t.Helper()
	all := map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured{}
	for _, gvr := range []schema.GroupVersionResource{configMaps, secrets} {
		all[gvr] = copies(t, gvr, id, syncSource)
		for i := range half {
			source := get(t, gvr, from, fmt.Sprintf("source-%02d", i))
			for _, ns := range to {
				o := all[gvr][types.NamespacedName{Namespace: ns, Name: source.GetName()}]
				if o == nil || fmt.Sprint(o.Object["data"]) != fmt.Sprint(source.Object["data"]) || field(o, "type") != field(source, "type") {
					t.Fatalf("the copy of %s in %s is %v", source.GetName(), ns, o)
				}
				if note := o.GetAnnotations(); note[syncSource] != from+"/"+source.GetName() || note["configsync.thole.dev/source-uid"] != string(source.GetUID()) {
					t.Fatalf("the copy of %s in %s has annotations %v", source.GetName(), ns, note)
				}
			}
		}
	}
	return all
}

// expectUnchanged compares resource versions.
func expectUnchanged(t *testing.T, before, after map[types.NamespacedName]*unstructured.Unstructured, meant func(types.NamespacedName) bool) {
	t.Helper()
	for name, o := range before {
		if meant(name) && (after[name] == nil || after[name].GetResourceVersion() != o.GetResourceVersion()) {
			t.Errorf("the copy %s was written or is gone", name)
		}
	}
}

// TestConfigSyncAndOthers is about what somebody else has made or changed.
func TestConfigSyncAndOthers(t *testing.T) {
	from := namespace(t)
	id := from // no other test has it
	to := targets(t, id, 3)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Data: map[string]string{"value": "mine"}}
	foreign, err := clients.CoreV1().ConfigMaps(to[1]).Create(t.Context(), foreign, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := configsync(t, newDirectory(t))
	if err := createSource(t.Context(), configMaps, from, "shared", "e2e="+id, "1"); err != nil {
		t.Fatal(err)
	}
	right := func(ns string) bool {
		o := get(t, configMaps, ns, "shared")
		if o == nil {
			return false
		}
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		return len(data) == 2 && data["value"] == "1"
	}
	await.Until(t, "the free namespaces have their copy", func() bool { return right(to[0]) && right(to[2]) })
	await.Until(t, "the conflict is told", func() bool {
		events, err := clients.CoreV1().Events(from).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.Reason == "Conflict" && e.Type == "Warning" && e.InvolvedObject.Name == "shared" && strings.Contains(e.Message, to[1]) {
				return true
			}
		}
		return false
	})

	// An edit of a value makes applying it a conflict; one that adds a key
	// would go unnoticed by it.
	for _, patch := range []string{`{"data":{"value":"edited"}}`, `{"data":{"added":"x"}}`} {
		if _, err := objects.Resource(configMaps).Namespace(to[0]).Patch(t.Context(), "shared", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the edited copy is right again", func() bool { return right(to[0]) })
	}

	// As if its fields were another's while the source changes.
	annotate(t, configMaps, to[2], "shared", "configsync.thole.dev/digest", "another")
	await.Until(t, "the copy with a conflict is right again", func() bool {
		o := get(t, configMaps, to[2], "shared")
		return o != nil && o.GetAnnotations()["configsync.thole.dev/digest"] != "another" && right(to[2])
	})

	if got := get(t, configMaps, to[1], "shared"); got.GetResourceVersion() != foreign.ResourceVersion {
		t.Errorf("what it did not make was written: %v", got)
	}
	remove(t, configMaps, to[1], "shared")
	await.Until(t, "the name that became free has its copy", func() bool { return right(to[1]) })

	at := p.Log.Mark()
	if err := clients.CoreV1().Namespaces().Delete(t.Context(), to[2], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	logged(t, p, at, 0, "configmap "+from+"/shared") // a terminating namespace
	await.Until(t, "the namespace is gone", func() bool { return get(t, namespaces, "", to[2]) == nil })

	if _, err := objects.Resource(configMaps).Namespace(from).Patch(t.Context(), "shared", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"configsync.thole.dev/namespaces":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "without its annotation the source has no copies", func() bool {
		return get(t, configMaps, to[0], "shared") == nil && get(t, configMaps, to[1], "shared") == nil
	})
	remove(t, configMaps, from, "shared")
	await.Until(t, "the source is gone", func() bool { return get(t, configMaps, from, "shared") == nil })
	p.expectNoErrors()
}
