package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolswatch "k8s.io/client-go/tools/watch"
)

// stamp is what a plugin leaves in everything that a run writes.
type stamp struct{ version, note, text string }

func (s stamp) String() string { return fmt.Sprintf("%s %q %q", s.version, s.note, s.text) }

// soakWitness sees every version of every object of a namespace, and what is
// wrong with it.
type soakWitness struct {
	ns string

	mu       sync.Mutex
	objects  map[string]*soakObject // by name
	wrong    []string
	events   int
	latency  []time.Duration // of the plugin that is never touched: change to status
	ownTimes bool            // latency is measured
}

// soakObject is a primary with its child, as far as they have been seen.
type soakObject struct {
	plugin   int
	spec     string    // its text
	wanted   string    // the text that was written last
	since    time.Time // zero: not measured
	ready    bool
	status   stamp
	child    stamp // zero: there is none
	statuses []seen
	children []seen
}

// seen is a stamp at a resourceVersion, which all kinds of a cluster share.
type seen struct {
	at int64
	stamp
}

// newSoakWitness watches kinds until the test ends.
func newSoakWitness(t *testing.T, ns string, kinds []schema.GroupVersionResource) *soakWitness {
	t.Helper()
	w := &soakWitness{ns: ns, objects: map[string]*soakObject{}}
	for plugin, kind := range kinds {
		w.watch(t, kind, func(e watch.Event, o *unstructured.Unstructured) { w.seePrimary(plugin, e.Type, o) })
	}
	w.watch(t, configMaps, func(e watch.Event, o *unstructured.Unstructured) { w.seeChild(e.Type, o) })
	return w
}

// watch passes every event of a kind to see, one after the other.
func (w *soakWitness) watch(t *testing.T, kind schema.GroupVersionResource, see func(watch.Event, *unstructured.Unstructured)) {
	t.Helper()
	client := objects.Resource(kind).Namespace(w.ns)
	all, err := client.List(t.Context(), metav1.ListOptions{})
	done(t, err)
	watcher, err := toolswatch.NewRetryWatcherWithContext(t.Context(), all.GetResourceVersion(), watchClient(client.Watch))
	done(t, err)
	var ended sync.WaitGroup
	ended.Go(func() {
		for e := range watcher.ResultChan() {
			if o, ok := e.Object.(*unstructured.Unstructured); ok {
				w.mu.Lock()
				w.events++
				see(e, o)
				w.mu.Unlock()
			} else {
				t.Errorf("watch %s: %v: some versions were not seen", kind.Resource, e.Object)
			}
		}
	})
	t.Cleanup(func() {
		watcher.Stop()
		ended.Wait()
	})
}

// watchClient is a method of a client as the watcher wants it.
type watchClient func(context.Context, metav1.ListOptions) (watch.Interface, error)

func (c watchClient) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return c(ctx, o)
}

// expect notes what was written to an object; "" that it was deleted.
func (w *soakWitness) expect(plugin int, name, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text == "" {
		delete(w.objects, name)
		return
	}
	o := w.objects[name]
	if o == nil {
		o = &soakObject{plugin: plugin}
		w.objects[name] = o
	}
	o.wanted, o.since = text, time.Time{}
	if w.ownTimes && plugin == 0 {
		o.since = time.Now()
	}
}

func (w *soakWitness) measure(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ownTimes = on
}

func (w *soakWitness) seePrimary(plugin int, event watch.EventType, u *unstructured.Unstructured) {
	o := w.objects[u.GetName()]
	if o == nil || event == watch.Deleted {
		return // on its way out
	}
	status := stamp{field(u, "status", "version"), field(u, "status", "note"), field(u, "status", "text")}
	o.spec, o.ready = field(u, "spec", "text"), ready(u)
	if status != o.status {
		said, _ := condition(u, "Stamped")["message"].(string)
		if want := status.version + " " + status.note; said != want {
			w.mixed(u, "the status is of %q, its condition of %q", want, said)
		}
		o.statuses = append(o.statuses, seen{revision(u), status})
	}
	o.status = status
	if !o.since.IsZero() && status.text == o.wanted {
		w.latency = append(w.latency, time.Since(o.since))
		o.since = time.Time{}
	}
}

func (w *soakWitness) seeChild(event watch.EventType, u *unstructured.Unstructured) {
	o := w.objects[u.GetName()]
	if o == nil {
		return
	}
	child := stamp{field(u, "data", "version"), field(u, "data", "note"), field(u, "data", "text")}
	if event == watch.Deleted {
		child = stamp{}
	} else if a := u.GetAnnotations()["e2e.thole.dev/version"]; a != child.version {
		w.mixed(u, "the data is of %q, the annotation of %q", child.version, a)
	}
	o.child = child
	o.children = append(o.children, seen{revision(u), child})
}

func (w *soakWitness) mixed(u *unstructured.Unstructured, format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf("%s %s at %s: ", u.GetKind(), u.GetName(), u.GetResourceVersion())+fmt.Sprintf(format, args...))
}

func revision(u *unstructured.Unstructured) int64 {
	n, _ := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
	return n
}

// judge looks at what every object went through since the last time, once all
// of it has been seen, and answers all that is wrong so far.
//
// Runs of one object follow each other, and write the child before the status.
// So when a status appears the child is as the same run wanted it, unless it
// has been deleted meanwhile; and no run is of an older version than the one
// before.
func (w *soakWitness) judge() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, o := range w.objects {
		w.wrong = append(w.wrong, o.judge(name)...)
	}
	return slices.Clone(w.wrong)
}

func (o *soakObject) judge(name string) (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, name+": "+fmt.Sprintf(format, args...))
	}
	for i, s := range o.statuses {
		at, _ := slices.BinarySearchFunc(o.children, s.at, func(c seen, at int64) int { return int(c.at - at) })
		if at > 0 && o.children[at-1].stamp != s.stamp && o.children[at-1].stamp != (stamp{}) {
			say("status at %d is of %v, the child at %d of %v", s.at, s.stamp, o.children[at-1].at, o.children[at-1].stamp)
		}
		if i > 0 && s.version < o.statuses[i-1].version {
			say("status at %d is of %v, after %v at %d", s.at, s.stamp, o.statuses[i-1].stamp, o.statuses[i-1].at)
		}
	}
	newest := ""
	for _, c := range o.children {
		if c.version != "" && c.version < newest {
			say("child at %d is of %v, after %s", c.at, c.stamp, newest)
		}
		newest = max(newest, c.version)
	}
	o.statuses = o.statuses[max(0, len(o.statuses)-1):]
	o.children = o.children[max(0, len(o.children)-1):]
	return wrong
}

// behind answers the objects of a plugin that are not as the last change and
// one of the versions and notes want, the same for all, and which that are.
func (w *soakWitness) behind(plugin int, versions, notes map[string]bool) (late []string, version, note string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, o := range w.objects {
		switch {
		case o.plugin != plugin:
			continue
		case version == "" && versions[o.status.version] && notes[o.status.note]:
			version, note = o.status.version, o.status.note
		}
		want := stamp{version, note, o.wanted}
		if version == "" || o.spec != o.wanted || !o.ready || o.status != want || o.child != want {
			late = append(late, fmt.Sprintf("%s: wanted %q, spec %q, ready %t, status %v, child %v", name, o.wanted, o.spec, o.ready, o.status, o.child))
		}
	}
	slices.Sort(late)
	return late, version, note
}

// quantiles of the latency of the plugin that is never touched.
func (w *soakWitness) quantiles() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.latency) == 0 {
		return "not measured"
	}
	slices.Sort(w.latency)
	at := func(q float64) time.Duration {
		return w.latency[int(q*float64(len(w.latency)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("median %s, 99 %% %s, most %s of %d", at(.5), at(.99), at(1), len(w.latency))
}
