package e2e

import (
	"context"
	"encoding/json"
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
)

// configsync starts thole on all namespaces with the plugin and its policy.
func configsync(t *testing.T, d directory) *process {
	t.Helper()
	policy, err := os.ReadFile(filepath.Join("..", "..", "..", "plugins", "configsync", "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, d.path, "configsync.yaml", string(policy))
	d.install("configsync", wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/configsync"))
	p := thole(t, d, "", manyWrites+"allow: {crossNamespace: [configsync]}")
	p.ready("configsync", 1)
	return p
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

// copies lists the copies of all sources in a namespace, or of one source.
func copies(t *testing.T, gvr schema.GroupVersionResource, selector string) map[types.NamespacedName]*unstructured.Unstructured {
	t.Helper()
	l, err := objects.Resource(gvr).List(t.Context(), metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[types.NamespacedName]*unstructured.Unstructured{}
	for i := range l.Items {
		o := &l.Items[i]
		byName[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
	}
	return byName
}

// logged waits until a run of every object ended with so many writes, after
// the mark, which is a length of the log. An object is named with the
// controller: "secret ns/name".
func logged(t *testing.T, p *process, mark int, writes float64, objects ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, o := range objects {
		missing[o] = true
	}
	slowly(t, time.Minute, fmt.Sprintf("a run with %v writes of each of %d objects", writes, len(objects)), func() bool {
		text := p.output.String()[mark:]
		for line := range strings.Lines(text[:strings.LastIndexByte(text, '\n')+1]) {
			mark += len(line)
			var fields map[string]any
			if strings.Contains(line, `"reconciled"`) && json.Unmarshal([]byte(line), &fields) == nil && fields["writes"] == writes {
				delete(missing, fmt.Sprint(fields["controller"], " ", fields["object"]))
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

func mark(p *process) int { return len(p.output.String()) }

// TestConfigSyncAtScale is acceptance 4 of the issue: 100 sources and 50
// namespaces converge, a changed source costs one write per copy, a removed
// label prunes exactly the copies of that namespace, a restart costs nothing.
func TestConfigSyncAtScale(t *testing.T) {
	const half, many = 50, 50
	id := fmt.Sprintf("sync-%d", time.Now().UnixNano()%1e6)
	from, to := namespace(t), targets(t, id, many)
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

	before, start := requests(t, "configmaps", "secrets"), time.Now()
	d := newDirectory(t)
	p := configsync(t, d)
	converged := func() bool {
		for _, gvr := range []schema.GroupVersionResource{configMaps, secrets} {
			if len(copies(t, gvr, syncSource)) != half*many {
				return false
			}
		}
		return true
	}
	slowly(t, 3*time.Minute, "every namespace has every copy", converged)
	t.Logf("%d copies after %s", 2*half*many, time.Since(start).Round(100*time.Millisecond))
	logged(t, p, 0, 0, sources(from, half)...)
	all := expectCopies(t, from, to, half)
	counts := since(before, requests(t, "configmaps", "secrets"))
	if counts["APPLY"] != 2*half*many || writes(counts) != 2*half*many+2*half {
		t.Errorf("writes were %v, expected one apply per copy and one finalizer per source", counts)
	}

	t.Run("a changed source updates its copies alone", func(t *testing.T) {
		before, at := requests(t, "configmaps", "secrets"), mark(p)
		patch := `{"data":{"value":"changed","same":null,"new":"too"}}`
		if _, err := objects.Resource(configMaps).Namespace(from).Patch(t.Context(), "source-07", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		slowly(t, time.Minute, "every copy is changed", func() bool {
			changed := 0
			for _, o := range copies(t, configMaps, syncSource+"="+from+".source-07") {
				data, _, _ := unstructured.NestedStringMap(o.Object, "data")
				if len(data) == 2 && data["value"] == "changed" && data["new"] == "too" {
					changed++
				}
			}
			return changed == many
		})
		logged(t, p, at, many, "configmap "+from+"/source-07")
		at = mark(p)
		annotate(t, configMaps, from, "source-07", "example.com/again", "x") // another run, after all that the change led to
		logged(t, p, at, 0, "configmap "+from+"/source-07")
		counts := since(before, requests(t, "configmaps", "secrets"))
		if counts["APPLY"] != many || writes(counts) != many+2 { // this test's two patches
			t.Errorf("writes were %v, expected %d", counts, many)
		}
		expectUnchanged(t, all[configMaps], copies(t, configMaps, syncSource), func(n types.NamespacedName) bool { return n.Name != "source-07" })
		expectUnchanged(t, all[secrets], copies(t, secrets, syncSource), func(types.NamespacedName) bool { return true })
	})

	t.Run("a removed label prunes its copies alone", func(t *testing.T) {
		kept := copies(t, configMaps, syncSource)
		before, at := requests(t, "configmaps", "secrets"), mark(p)
		if _, err := objects.Resource(namespaces).Patch(t.Context(), to[3], types.MergePatchType, []byte(`{"metadata":{"labels":{"e2e":null}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		slowly(t, time.Minute, "the namespace has no copy", func() bool {
			return len(copies(t, configMaps, syncSource)) == half*(many-1) && len(copies(t, secrets, syncSource)) == half*(many-1)
		})
		logged(t, p, at, 1, sources(from, half)...)
		counts := since(before, requests(t, "configmaps", "secrets"))
		if counts["DELETE"] != 2*half || writes(counts) != 2*half {
			t.Errorf("writes were %v, expected %d deletions", counts, 2*half)
		}
		expectUnchanged(t, kept, copies(t, configMaps, syncSource), func(n types.NamespacedName) bool { return n.Namespace != to[3] })
		expectUnchanged(t, all[secrets], copies(t, secrets, syncSource), func(n types.NamespacedName) bool { return n.Namespace != to[3] })
	})

	p.stop()
	p.expectNoErrors()
	before = requests(t, "configmaps", "secrets")
	p = configsync(t, d) // lives on after the subtest
	t.Run("a restart writes nothing", func(t *testing.T) {
		logged(t, p, 0, 0, sources(from, half)...)
		if counts := since(before, requests(t, "configmaps", "secrets")); writes(counts) != 0 {
			t.Errorf("writes were %v", counts)
		}
	})

	t.Run("a deleted source takes its copies along", func(t *testing.T) {
		remove(t, secrets, from, "source-11")
		slowly(t, time.Minute, "the source and its copies are gone", func() bool {
			return get(t, secrets, from, "source-11") == nil && len(copies(t, secrets, syncSource+"="+from+".source-11")) == 0
		})
		if n := len(copies(t, secrets, syncSource)); n != (half-1)*(many-1) {
			t.Errorf("%d copies are left", n)
		}
	})
	p.stop()
	p.expectNoErrors()
}

// slowly is within for a question that costs something.
func slowly(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	within(t, limit, what, func() bool { <-tick.C; return done() })
}

// expectCopies compares every copy with its source.
func expectCopies(t *testing.T, from string, to []string, half int) map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured {
	t.Helper()
	all := map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured{}
	for _, gvr := range []schema.GroupVersionResource{configMaps, secrets} {
		all[gvr] = copies(t, gvr, syncSource)
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
	id := fmt.Sprintf("others-%d", time.Now().UnixNano()%1e6)
	from, to := namespace(t), targets(t, id, 3)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Data: map[string]string{"value": "mine"}}
	foreign, err := clients.CoreV1().ConfigMaps(to[1]).Create(t.Context(), foreign, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := configsync(t, newDirectory(t))
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
	eventually(t, "the free namespaces have their copy", func() bool { return right(to[0]) && right(to[2]) })
	eventually(t, "the conflict is told", func() bool {
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
		eventually(t, "the edited copy is right again", func() bool { return right(to[0]) })
	}

	// As if its fields were another's while the source changes.
	annotate(t, configMaps, to[2], "shared", "configsync.thole.dev/digest", "another")
	eventually(t, "the copy with a conflict is right again", func() bool {
		o := get(t, configMaps, to[2], "shared")
		return o != nil && o.GetAnnotations()["configsync.thole.dev/digest"] != "another" && right(to[2])
	})

	if got := get(t, configMaps, to[1], "shared"); got.GetResourceVersion() != foreign.ResourceVersion {
		t.Errorf("what it did not make was written: %v", got)
	}
	remove(t, configMaps, to[1], "shared")
	eventually(t, "the name that became free has its copy", func() bool { return right(to[1]) })

	at := mark(p)
	if err := clients.CoreV1().Namespaces().Delete(t.Context(), to[2], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	logged(t, p, at, 0, "configmap "+from+"/shared") // a terminating namespace
	eventually(t, "the namespace is gone", func() bool { return get(t, namespaces, "", to[2]) == nil })

	if _, err := objects.Resource(configMaps).Namespace(from).Patch(t.Context(), "shared", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"configsync.thole.dev/namespaces":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "without its annotation the source has no copies", func() bool {
		return get(t, configMaps, to[0], "shared") == nil && get(t, configMaps, to[1], "shared") == nil
	})
	remove(t, configMaps, from, "shared")
	eventually(t, "the source is gone", func() bool { return get(t, configMaps, from, "shared") == nil })
	p.expectNoErrors()
}
