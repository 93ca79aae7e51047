package kstatustest

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/thole-dev/thole/host/internal/await"
)

// history has every version of a kind's objects in a namespace, as a watch reports
// them: none is missing and none is there twice.
type history struct {
	resource dynamic.ResourceInterface

	mu       sync.Mutex
	versions map[string][]entry // by name, in the order in which they were written
	failure  string             // why the watch has ended
}

// entry is one version. gone means that the version is the deletion.
type entry struct {
	object *unstructured.Unstructured
	at     uint64 // the resourceVersion; all kinds share one counter, because they share one etcd
	gone   bool
}

// watchHistory records a kind until the test ends.
func watchHistory(t *testing.T, gvr schema.GroupVersionResource, ns string) *history {
	t.Helper()
	h := &history{resource: objects.Resource(gvr).Namespace(ns), versions: map[string][]entry{}}
	list, err := h.resource.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		h.add(&list.Items[i], false)
	}
	// It continues where it was when the API server closes the watch, which happens
	// to a client that has had no processor time for long.
	w, err := watchtools.NewRetryWatcherWithContext(t.Context(), list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: h.resource.Watch,
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for e := range w.ResultChan() {
			h.event(e)
		}
		h.fail("it was closed")
	})
	t.Cleanup(func() { w.Stop(); wg.Wait() })
	return h
}

// fail records the first reason why versions may be missing.
func (h *history) fail(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure == "" {
		h.failure = why
	}
}

func (h *history) event(e watch.Event) {
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok || e.Type == watch.Error {
		h.fail(fmt.Sprintf("%s: %v", e.Type, e.Object))
		return
	}
	h.add(o, e.Type == watch.Deleted)
}

func (h *history) add(o *unstructured.Unstructured, gone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions[o.GetName()] = append(h.versions[o.GetName()], entry{o, number(o.GetResourceVersion()), gone})
}

// latest returns the latest version of an object, nil if it does not exist.
func (h *history) latest(name string) *unstructured.Unstructured {
	h.mu.Lock()
	defer h.mu.Unlock()
	return newest(h.versions[name])
}

// at returns the object as it was at a resourceVersion.
func (h *history) at(name string, version uint64) *unstructured.Unstructured {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.versions[name]
	for len(all) > 0 && all[len(all)-1].at > version {
		all = all[:len(all)-1]
	}
	return newest(all)
}

func newest(all []entry) *unstructured.Unstructured {
	if len(all) == 0 || all[len(all)-1].gone {
		return nil
	}
	return all[len(all)-1].object
}

// checkAll checks every version of every object, and returns how many of them have a
// status that the host wrote. An object and its child have the same name.
func (h *history) checkAll(t *testing.T, sc statusChecker, children *history) (written int) {
	t.Helper()
	h.catchUp(t)
	children.catchUp(t)
	for _, name := range h.names() {
		for v := range h.all(name) {
			at := number(v.object.GetResourceVersion())
			if err := sc.check(t, v, children.at(name, at)); err != nil {
				t.Errorf("%s at %d, %s: %v\n%s", name, at, stateOf(v.object), err, text(v.object))
			}
		}
		written += len(slices.Collect(h.statuses(name, sc)))
	}
	if written == 0 {
		t.Error("no status was written")
	}
	return written
}

func (h *history) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.versions))
}

// all yields the versions of an object.
func (h *history) all(name string) iter.Seq[version] {
	h.mu.Lock()
	entries := slices.Clone(h.versions[name])
	h.mu.Unlock()
	return func(yield func(version) bool) {
		var v version
		for _, e := range entries {
			v.before, v.object = v.object, e.object
			if !yield(v) {
				return
			}
			if e.gone {
				v.object = nil
			}
		}
	}
}

// statuses yields the versions of an object in which the host wrote status.
func (h *history) statuses(name string, sc statusChecker) iter.Seq[version] {
	return func(yield func(version) bool) {
		for v := range h.all(name) {
			if statusOf(v.object) != nil && v.written(sc.owned) && !yield(v) {
				return
			}
		}
	}
}

// catchUp waits until the watch has reported everything that exists by now, and the
// deletion of everything else.
func (h *history) catchUp(t *testing.T) {
	t.Helper()
	list, err := h.resource.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the watch has reported what the list has", func() bool {
		if why := h.ended(); why != "" {
			t.Fatalf("the watch has ended: %s", why)
		}
		listed := map[string]bool{}
		for i := range list.Items {
			listed[list.Items[i].GetName()] = true
			if !h.has(&list.Items[i]) {
				return false
			}
		}
		return !h.hasBesides(listed, number(list.GetResourceVersion()))
	})
}

func (h *history) ended() (why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failure
}

func (h *history) has(o *unstructured.Unstructured) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.versions[o.GetName()], func(e entry) bool {
		return e.object.GetResourceVersion() == o.GetResourceVersion()
	})
}

// hasBesides reports whether there is an object with another name that was written
// before that version: its deletion has not been reported yet.
func (h *history) hasBesides(names map[string]bool, then uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, all := range h.versions {
		if last := all[len(all)-1]; !names[name] && !last.gone && last.at <= then {
			return true
		}
	}
	return false
}

func number(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		panic(err) // not an API server on etcd
	}
	return n
}

func text(o *unstructured.Unstructured) []byte {
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	out, err := o.MarshalJSON()
	if err != nil {
		return []byte(err.Error())
	}
	return out
}
