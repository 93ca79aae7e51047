package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

var (
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
)

const (
	syncTo     = "configsync.thole.dev/namespaces"
	syncSource = "configsync.thole.dev/source"
	// copyLimit is how long 5,000 copies may take. They take half a minute on an idle
	// machine.
	copyLimit = 5 * await.Limit
)

// startConfigSync starts thole in all namespaces with the plugin configsync and its
// policy, and waits until the plugin runs.
func startConfigSync(t *testing.T, d directory) (*process, *tholetest.Proxy) {
	t.Helper()
	d.installExample("configsync")
	p, proxy := startWithProxy(t, d, "", "limits: {concurrency: 8}\n"+allowAll)
	p.awaitRunning("configsync", 1)
	return p, proxy
}

// createTargets creates namespaces that the label e2e=name selects.
func createTargets(t *testing.T, name string, many int) (names []string) {
	t.Helper()
	for i := range many {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%02d", name, i), Labels: map[string]string{"e2e": name},
		}}
		_, err := clients.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
		must(t, err)
		names = append(names, ns.Name)
	}
	return names
}

// createSource creates a ConfigMap or a Secret that the plugin copies into the
// namespaces that the label selector to selects.
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

type byNamespacedName map[types.NamespacedName]*unstructured.Unstructured

// copies returns the objects that the selector selects in the namespaces that
// createTargets has created for id, by name.
func copies(t *testing.T, gvr schema.GroupVersionResource, id, selector string) byNamespacedName {
	t.Helper()
	l, err := objects.Resource(gvr).List(t.Context(), metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	must(t, err)
	byName := byNamespacedName{}
	for i := range l.Items {
		if o := &l.Items[i]; strings.HasPrefix(o.GetNamespace(), id+"-") {
			byName[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
		}
	}
	return byName
}

// haveCopies reports whether that many copies of each kind exist.
func haveCopies(t *testing.T, id string, n int) bool {
	t.Helper()
	return len(copies(t, configMaps, id, syncSource)) == n && len(copies(t, secrets, id, syncSource)) == n
}

// sourceRuns returns the sources of both kinds in a namespace as
// [process.awaitReconciled] takes them.
func sourceRuns(ns string, half int) (names []string) {
	for i := range half {
		for _, controller := range []string{"configmap", "secret"} {
			names = append(names, fmt.Sprintf("%s %s/source-%02d", controller, ns, i))
		}
	}
	return names
}

// Every source is copied into every namespace. After that a change costs one write
// per copy that it concerns, and a restart costs none.
func TestConfigSyncCopies100SourcesTo50Namespaces(t *testing.T) {
	const half, many = 50, 50
	from := namespace(t)
	id := from // no other test uses it
	to := createTargets(t, id, many)
	var group errgroup.Group
	for _, gvr := range []schema.GroupVersionResource{configMaps, secrets} {
		group.Go(func() (err error) {
			for i := range half {
				name := fmt.Sprintf("source-%02d", i)
				err = errors.Join(err, createSource(t.Context(), gvr, from, name, "e2e="+id, fmt.Sprint(i)))
			}
			return err
		})
	}
	must(t, group.Wait())

	begin := time.Now()
	d := newDirectory(t)
	p, proxy := startConfigSync(t, d)
	requests := func() tholetest.Counts { return proxy.Succeeded("configmaps", "secrets") }
	await.Within(t, copyLimit, "every namespace has every copy", func() bool { return haveCopies(t, id, half*many) })
	t.Logf("%d copies after %s", 2*half*many, time.Since(begin).Round(100*time.Millisecond))
	p.awaitReconciled(t, 0, 0, sourceRuns(from, half)...)
	all := expectCopies(t, from, id, to, half)
	if counts := requests(); counts["apply"] != 2*half*many || counts.Writes() != 2*half*many+2*half {
		t.Errorf("writes were %v, want one apply per copy and one finalizer per source", counts)
	}

	t.Run("changed source updates only its copies", func(t *testing.T) {
		before, mark := requests(), p.Log.Mark()
		must(t, patch(t.Context(), configMaps, from, "source-07", `{"data":{"value":"changed","same":null,"new":"too"}}`))
		await.Within(t, copyLimit, "every copy is changed", func() bool {
			changed := 0
			for _, o := range copies(t, configMaps, id, syncSource+"="+from+".source-07") {
				data, _, _ := unstructured.NestedStringMap(o.Object, "data")
				if len(data) == 2 && data["value"] == "changed" && data["new"] == "too" {
					changed++
				}
			}
			return changed == many
		})
		p.awaitReconciled(t, mark, many, "configmap "+from+"/source-07")
		mark = p.Log.Mark()
		// The run for this comes after all that the change led to.
		annotate(t, configMaps, from, "source-07", "example.com/again", "x")
		p.awaitReconciled(t, mark, 0, "configmap "+from+"/source-07")
		if counts := requests().Since(before); counts["apply"] != many || counts.Writes() != many {
			t.Errorf("writes were %v, want %d", counts, many)
		}
		others := func(n types.NamespacedName) bool { return n.Name != "source-07" }
		expectUnchanged(t, all[configMaps], copies(t, configMaps, id, syncSource), others)
		expectUnchanged(t, all[secrets], copies(t, secrets, id, syncSource), func(types.NamespacedName) bool { return true })
	})

	t.Run("removed label removes only the copies in the namespace", func(t *testing.T) {
		kept := copies(t, configMaps, id, syncSource)
		before, mark := requests(), p.Log.Mark()
		must(t, patch(t.Context(), namespaces, "", to[3], `{"metadata":{"labels":{"e2e":null}}}`))
		await.Within(t, copyLimit, "the namespace has no copy", func() bool { return haveCopies(t, id, half*(many-1)) })
		p.awaitReconciled(t, mark, 1, sourceRuns(from, half)...)
		if counts := requests().Since(before); counts["delete"] != 2*half || counts.Writes() != 2*half {
			t.Errorf("writes were %v, want %d deletions", counts, 2*half)
		}
		elsewhere := func(n types.NamespacedName) bool { return n.Namespace != to[3] }
		expectUnchanged(t, kept, copies(t, configMaps, id, syncSource), elsewhere)
		expectUnchanged(t, all[secrets], copies(t, secrets, id, syncSource), elsewhere)
	})

	p.stop()
	p.expectNoErrors()
	p, proxy = startConfigSync(t, d) // it must run longer than the next subtest
	t.Run("restart writes nothing", func(t *testing.T) {
		p.awaitReconciled(t, 0, 0, sourceRuns(from, half)...)
		if counts := requests(); counts.Writes() != 0 {
			t.Errorf("writes were %v", counts)
		}
	})

	t.Run("deleted source deletes its copies", func(t *testing.T) {
		remove(t, secrets, from, "source-11")
		await.Within(t, copyLimit, "the source and its copies are gone", func() bool {
			left := copies(t, secrets, id, syncSource+"="+from+".source-11")
			return get(t, secrets, from, "source-11") == nil && len(left) == 0
		})
		if n := len(copies(t, secrets, id, syncSource)); n != (half-1)*(many-1) {
			t.Errorf("%d copies remain", n)
		}
	})
	p.stop()
	p.expectNoErrors()
}

// expectCopies expects that every copy is like its source, and returns the copies.
func expectCopies(t *testing.T, from, id string, to []string, half int) (all map[schema.GroupVersionResource]byNamespacedName) {
	t.Helper()
	all = map[schema.GroupVersionResource]byNamespacedName{}
	for _, gvr := range []schema.GroupVersionResource{configMaps, secrets} {
		all[gvr] = copies(t, gvr, id, syncSource)
		for i := range half {
			source := get(t, gvr, from, fmt.Sprintf("source-%02d", i))
			for _, ns := range to {
				o := all[gvr][types.NamespacedName{Namespace: ns, Name: source.GetName()}]
				if o == nil || fmt.Sprint(o.Object["data"]) != fmt.Sprint(source.Object["data"]) ||
					field(o, "type") != field(source, "type") {
					t.Fatalf("the copy of %s in %s is %v", source.GetName(), ns, o)
				}
				if a := o.GetAnnotations(); a[syncSource] != from+"/"+source.GetName() ||
					a["configsync.thole.dev/source-uid"] != string(source.GetUID()) {
					t.Fatalf("the copy of %s in %s has annotations %v", source.GetName(), ns, a)
				}
			}
		}
	}
	return all
}

// expectUnchanged expects that the copies that selected returns true for have the
// same resource versions as before.
func expectUnchanged(t *testing.T, before, after byNamespacedName, selected func(types.NamespacedName) bool) {
	t.Helper()
	for name, o := range before {
		if selected(name) && (after[name] == nil || after[name].GetResourceVersion() != o.GetResourceVersion()) {
			t.Errorf("the copy %s was written or deleted", name)
		}
	}
}

// Others own an object of the name of a copy, and change copies.
func TestConfigSyncRepairsItsCopiesAndKeepsObjectsOfOthers(t *testing.T) {
	from := namespace(t)
	id := from // no other test uses it
	to := createTargets(t, id, 3)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Data: map[string]string{"value": "mine"}}
	foreign, err := clients.CoreV1().ConfigMaps(to[1]).Create(t.Context(), foreign, metav1.CreateOptions{})
	must(t, err)
	p, _ := startConfigSync(t, newDirectory(t))
	must(t, createSource(t.Context(), configMaps, from, "shared", "e2e="+id, "1"))
	correct := func(ns string) bool {
		o := get(t, configMaps, ns, "shared")
		if o == nil {
			return false
		}
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		return len(data) == 2 && data["value"] == "1"
	}
	await.Until(t, "the other namespaces have their copy", func() bool { return correct(to[0]) && correct(to[2]) })
	await.Until(t, "an Event reports the conflict", func() bool {
		return slices.ContainsFunc(eventsAbout(t, from, "shared"), func(e corev1.Event) bool {
			return e.Reason == "Conflict" && e.Type == "Warning" && strings.Contains(e.Message, to[1])
		})
	})

	// Applying a value that somebody else has changed is a conflict. Applying does
	// not notice an added key.
	for _, change := range []string{`{"data":{"value":"edited"}}`, `{"data":{"added":"x"}}`} {
		must(t, patch(t.Context(), configMaps, to[0], "shared", change))
		await.Until(t, "the changed copy is correct again", func() bool { return correct(to[0]) })
	}

	// The annotation has the digest of what was applied last: with another digest,
	// the copy looks as if it was changed together with its source.
	annotate(t, configMaps, to[2], "shared", "configsync.thole.dev/digest", "another")
	await.Until(t, "the copy with another digest is correct again", func() bool {
		o := get(t, configMaps, to[2], "shared")
		return o != nil && o.GetAnnotations()["configsync.thole.dev/digest"] != "another" && correct(to[2])
	})

	if got := get(t, configMaps, to[1], "shared"); got.GetResourceVersion() != foreign.ResourceVersion {
		t.Errorf("the object of somebody else was written: %v", got)
	}
	remove(t, configMaps, to[1], "shared")
	await.Until(t, "a copy takes the name that has become free", func() bool { return correct(to[1]) })

	mark := p.Log.Mark()
	must(t, clients.CoreV1().Namespaces().Delete(t.Context(), to[2], metav1.DeleteOptions{}))
	p.awaitReconciled(t, mark, 0, "configmap "+from+"/shared") // while the namespace is terminating
	await.Until(t, "the namespace is gone", func() bool { return get(t, namespaces, "", to[2]) == nil })

	must(t, patch(t.Context(), configMaps, from, "shared", `{"metadata":{"annotations":{"configsync.thole.dev/namespaces":null}}}`))
	await.Until(t, "a source without its annotation has no copies", func() bool {
		return get(t, configMaps, to[0], "shared") == nil && get(t, configMaps, to[1], "shared") == nil
	})
	remove(t, configMaps, from, "shared")
	await.Until(t, "the source is gone", func() bool { return get(t, configMaps, from, "shared") == nil })
	p.expectNoErrors()
}
