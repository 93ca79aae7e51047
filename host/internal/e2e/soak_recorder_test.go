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

// stamp is what the plugin in testdata/soak writes into everything that it writes
// in one run: its version, the note of its policy, and the text of the spec.
type stamp struct{ version, note, text string }

func (s stamp) String() string { return fmt.Sprintf("%s %q %q", s.version, s.note, s.text) }

// soakRecorder records every version of every object of a namespace.
type soakRecorder struct {
	ns string

	mu        sync.Mutex
	objects   map[string]*recordedObject // by name
	problems  []string
	events    int
	measuring bool            // latency is measured
	latency   []time.Duration // of the first plugin, from the change of a spec to the status
}

// recordedObject is a primary with its child, as far as they were observed.
type recordedObject struct {
	plugin   int
	wanted   string    // the text that the test wrote last
	since    time.Time // when it did; zero if the latency is not measured
	spec     string    // the observed text
	ready    bool
	status   stamp
	child    stamp // zero if there is none
	statuses []recordedStamp
	children []recordedStamp
}

// recordedStamp is a stamp and the resourceVersion at which it was written. All
// kinds of a cluster share one sequence of resourceVersions.
type recordedStamp struct {
	at int64
	stamp
}

// newSoakRecorder watches kinds, and ConfigMaps as their children, until the test
// ends.
func newSoakRecorder(t *testing.T, ns string, kinds []schema.GroupVersionResource) *soakRecorder {
	t.Helper()
	r := &soakRecorder{ns: ns, objects: map[string]*recordedObject{}}
	for plugin, kind := range kinds {
		r.watch(t, kind, func(e watch.EventType, o *unstructured.Unstructured) { r.observePrimary(plugin, e, o) })
	}
	r.watch(t, configMaps, r.observeChild)
	return r
}

// watch calls observe for every event of a kind, in order, with r.mu held.
func (r *soakRecorder) watch(
	t *testing.T, kind schema.GroupVersionResource, observe func(watch.EventType, *unstructured.Unstructured),
) {
	t.Helper()
	client := objects.Resource(kind).Namespace(r.ns)
	all, err := client.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	watcher, err := toolswatch.NewRetryWatcherWithContext(t.Context(), all.GetResourceVersion(), watchClient(client.Watch))
	must(t, err)
	var ended sync.WaitGroup
	ended.Go(func() {
		for e := range watcher.ResultChan() {
			o, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				t.Errorf("watch %s: %v: some versions were not recorded", kind.Resource, e.Object)
				continue
			}
			r.mu.Lock()
			r.events++
			observe(e.Type, o)
			r.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		watcher.Stop()
		ended.Wait()
	})
}

// watchClient is the method Watch of a client as RetryWatcher takes it.
type watchClient func(context.Context, metav1.ListOptions) (watch.Interface, error)

func (c watchClient) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return c(ctx, o)
}

// expect records the text that the test is about to write to an object.
func (r *soakRecorder) expect(plugin int, name, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.objects[name]
	if o == nil {
		o = &recordedObject{plugin: plugin}
		r.objects[name] = o
	}
	o.wanted, o.since = text, time.Time{}
	if r.measuring && plugin == 0 {
		o.since = time.Now()
	}
}

// forget ends the recording of an object that the test is about to delete.
func (r *soakRecorder) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.objects, name)
}

// measure switches the measurement of the latency on or off.
func (r *soakRecorder) measure(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measuring = on
}

func (r *soakRecorder) observePrimary(plugin int, event watch.EventType, u *unstructured.Unstructured) {
	o := r.objects[u.GetName()]
	if o == nil || event == watch.Deleted {
		return // the test has deleted it
	}
	status := stamp{field(u, "status", "version"), field(u, "status", "note"), field(u, "status", "text")}
	o.spec, o.ready = field(u, "spec", "text"), ready(u)
	if status != o.status {
		message, _ := condition(u, "Stamped")["message"].(string)
		if want := status.version + " " + status.note; message != want {
			r.addProblem(u, "the status is of %q, its condition of %q", want, message)
		}
		o.statuses = append(o.statuses, recordedStamp{resourceVersion(u), status})
	}
	o.status = status
	if !o.since.IsZero() && status.text == o.wanted {
		r.latency = append(r.latency, time.Since(o.since))
		o.since = time.Time{}
	}
}

func (r *soakRecorder) observeChild(event watch.EventType, u *unstructured.Unstructured) {
	o := r.objects[u.GetName()]
	if o == nil {
		return
	}
	child := stamp{field(u, "data", "version"), field(u, "data", "note"), field(u, "data", "text")}
	if event == watch.Deleted {
		child = stamp{}
	} else if a := u.GetAnnotations()["e2e.thole.dev/version"]; a != child.version {
		r.addProblem(u, "the data is of %q, the annotation of %q", child.version, a)
	}
	o.child = child
	o.children = append(o.children, recordedStamp{resourceVersion(u), child})
}

func (r *soakRecorder) addProblem(u *unstructured.Unstructured, format string, args ...any) {
	r.problems = append(r.problems,
		fmt.Sprintf("%s %s at %s: ", u.GetKind(), u.GetName(), u.GetResourceVersion())+fmt.Sprintf(format, args...))
}

func resourceVersion(u *unstructured.Unstructured) int64 {
	n, _ := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
	return n
}

// check checks what was recorded of every object since the last call, and returns
// all problems so far. No object must change meanwhile.
func (r *soakRecorder) check() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, o := range r.objects {
		r.problems = append(r.problems, o.check(name)...)
	}
	return slices.Clone(r.problems)
}

// check returns the problems in the history of an object, and drops all of it but
// the last stamps.
//
// Runs for one object do not overlap, and each writes the child before the status.
// So when a status is written, the child must be as the same run wanted it, unless
// somebody has deleted it meanwhile, and no run may be of an older version than the
// run before.
func (o *recordedObject) check(name string) (problems []string) {
	add := func(format string, args ...any) {
		problems = append(problems, name+": "+fmt.Sprintf(format, args...))
	}
	for i, s := range o.statuses {
		at, _ := slices.BinarySearchFunc(o.children, s.at, func(c recordedStamp, at int64) int { return int(c.at - at) })
		if at > 0 && o.children[at-1].stamp != s.stamp && o.children[at-1].stamp != (stamp{}) {
			add("status at %d is of %v, the child at %d of %v", s.at, s.stamp, o.children[at-1].at, o.children[at-1].stamp)
		}
		if i > 0 && s.version < o.statuses[i-1].version {
			add("status at %d is of %v, after %v at %d", s.at, s.stamp, o.statuses[i-1].stamp, o.statuses[i-1].at)
		}
	}
	newest := ""
	for _, c := range o.children {
		if c.version != "" && c.version < newest {
			add("child at %d is of %v, after %s", c.at, c.stamp, newest)
		}
		newest = max(newest, c.version)
	}
	o.statuses = o.statuses[max(0, len(o.statuses)-1):]
	o.children = o.children[max(0, len(o.children)-1):]
	return problems
}

// outdated returns the objects of a plugin that are not as the last change, one of
// the versions and one of the notes want them, and which version and note that are.
// They are the same for all objects.
func (r *soakRecorder) outdated(plugin int, versions, notes map[string]bool) (all []string, version, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, o := range r.objects {
		switch {
		case o.plugin != plugin:
			continue
		case version == "" && versions[o.status.version] && notes[o.status.note]:
			version, note = o.status.version, o.status.note
		}
		want := stamp{version, note, o.wanted}
		if version == "" || o.spec != o.wanted || !o.ready || o.status != want || o.child != want {
			all = append(all, fmt.Sprintf("%s: wanted %q, spec %q, ready %t, status %v, child %v",
				name, o.wanted, o.spec, o.ready, o.status, o.child))
		}
	}
	slices.Sort(all)
	return all, version, note
}

// quantiles describes the latency that was measured.
func (r *soakRecorder) quantiles() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.latency) == 0 {
		return "not measured"
	}
	slices.Sort(r.latency)
	at := func(q float64) time.Duration {
		return r.latency[int(q*float64(len(r.latency)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("median %s, 99 %% %s, maximum %s of %d", at(.5), at(.99), at(1), len(r.latency))
}
