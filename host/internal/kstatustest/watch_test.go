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

// record is every version of a kind's objects in a namespace, as a watch tells
// them: none is left out and none comes twice.
type record struct {
	resource dynamic.ResourceInterface

	mu       sync.Mutex
	versions map[string][]entry // by name, in the order in which they were written
	failure  string             // why the watch has ended
}

// entry is one version; gone means that the object was deleted at it.
type entry struct {
	object *unstructured.Unstructured
	at     uint64 // the resourceVersion: one count for all kinds, as all are in one etcd
	gone   bool
}

// watching records a kind until the test ends.
func watching(t *testing.T, gvr schema.GroupVersionResource, ns string) *record {
	t.Helper()
	r := &record{resource: objects.Resource(gvr).Namespace(ns), versions: map[string][]entry{}}
	list, err := r.resource.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		r.add(&list.Items[i], false)
	}
	// One that goes on where it was when the API server ends it, as it does
	// with a client that has not had the processor for long.
	w, err := watchtools.NewRetryWatcherWithContext(t.Context(), list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: r.resource.Watch,
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for e := range w.ResultChan() {
			r.event(e)
		}
		r.fail("it was closed")
	})
	t.Cleanup(func() { w.Stop(); wg.Wait() })
	return r
}

// fail notes the first reason why versions may be missing.
func (r *record) fail(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == "" {
		r.failure = why
	}
}

func (r *record) event(e watch.Event) {
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok || e.Type == watch.Error {
		r.fail(fmt.Sprintf("%s: %v", e.Type, e.Object))
		return
	}
	r.add(o, e.Type == watch.Deleted)
}

func (r *record) add(o *unstructured.Unstructured, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[o.GetName()] = append(r.versions[o.GetName()], entry{o, number(o.GetResourceVersion()), gone})
}

// latest returns the object as it is, nil if it does not exist.
func (r *record) latest(name string) *unstructured.Unstructured {
	r.mu.Lock()
	defer r.mu.Unlock()
	return newest(r.versions[name])
}

// at returns the object as it was at a resourceVersion.
func (r *record) at(name string, version uint64) *unstructured.Unstructured {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.versions[name]
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

// expect holds every version of every object against the judge, and returns
// how many of them were statuses that the host wrote. Objects have a child of
// their own name.
func (r *record) expect(t *testing.T, j judge, children *record) (written int) {
	t.Helper()
	r.catchUp(t)
	children.catchUp(t)
	for _, name := range r.names() {
		for v := range r.all(name) {
			at := number(v.object.GetResourceVersion())
			if err := j.verdict(t, v, children.at(name, at)); err != nil {
				t.Errorf("%s at %d, %s: %v\n%s", name, at, stateOf(v.object), err, text(v.object))
			}
		}
		written += len(slices.Collect(r.statuses(name, j)))
	}
	if written == 0 {
		t.Error("no status was seen")
	}
	return written
}

func (r *record) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.versions))
}

// all yields the versions of an object.
func (r *record) all(name string) iter.Seq[version] {
	r.mu.Lock()
	entries := slices.Clone(r.versions[name])
	r.mu.Unlock()
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
func (r *record) statuses(name string, j judge) iter.Seq[version] {
	return func(yield func(version) bool) {
		for v := range r.all(name) {
			if statusOf(v.object) != nil && v.written(j.owned) && !yield(v) {
				return
			}
		}
	}
}

// catchUp waits until the watch has told all that there is by now, and that
// nothing else is left.
func (r *record) catchUp(t *testing.T) {
	t.Helper()
	list, err := r.resource.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the watch is as far as the list", func() bool {
		if why := r.ended(); why != "" {
			t.Fatalf("the watch has ended: %s", why)
		}
		listed := map[string]bool{}
		for i := range list.Items {
			listed[list.Items[i].GetName()] = true
			if !r.has(&list.Items[i]) {
				return false
			}
		}
		return !r.hasBesides(listed, number(list.GetResourceVersion()))
	})
}

func (r *record) ended() (why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

func (r *record) has(o *unstructured.Unstructured) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.versions[o.GetName()], func(e entry) bool {
		return e.object.GetResourceVersion() == o.GetResourceVersion()
	})
}

// hasBesides says whether there is an object of another name that was written
// by then: its deletion has not been told yet.
func (r *record) hasBesides(names map[string]bool, then uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, all := range r.versions {
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
