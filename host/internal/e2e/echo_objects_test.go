package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/thole-dev/thole/host/internal/await"
)

var echoes = schema.GroupVersionResource{Group: "e2e.thole.dev", Version: "v1", Resource: "echoes"}

// echoFleet are Echoes of one size in a namespace of their own, numbered from 0, and
// the times at which a watch has shown their statuses.
type echoFleet struct {
	tb    testing.TB
	ns    string
	many  int
	bytes int // of an Echo, see echoSpec

	mu       sync.Mutex
	revision int               // of the spec, which the statuses must show
	since    map[int]time.Time // when each spec was written whose status is not shown
	took     latencies         // of the statuses that have been shown
}

// newEchoFleet installs the kind Echo and makes a namespace. It creates no Echo.
func newEchoFleet(tb testing.TB, many, bytes int) *echoFleet {
	tb.Helper()
	installCRD(tb, testdata+"echo/crd.yaml")
	return &echoFleet{tb: tb, ns: namespace(tb), many: many, bytes: bytes, since: map[int]time.Time{}}
}

func echoName(i int) string { return fmt.Sprintf("echo-%06d", i) }

// echoSpec returns a spec with which an Echo has about that many bytes of JSON without
// managed fields and status. Half of them are random, different for each Echo.
func echoSpec(i, revision, bytes int) map[string]any {
	const (
		envelope = 400 // bytes of metadata, and of the names in the spec
		entry    = 132 // bytes of an entry, 100 of them its value
	)
	random := rand.New(rand.NewPCG(uint64(i), 0))
	entries := make([]any, max(0, (bytes-envelope)/entry))
	for n := range entries {
		value := randomText(rand.New(rand.NewPCG(uint64(n), 1)), 100)
		if n%2 == 0 {
			value = randomText(random, 100)
		}
		entries[n] = map[string]any{"name": fmt.Sprintf("entry-%02d", n), "value": value}
	}
	return map[string]any{
		"revision": int64(revision), "text": fmt.Sprintf("revision %d of %s", revision, randomText(random, 80)), "entries": entries,
	}
}

// randomText returns n random letters.
func randomText(random *rand.Rand, n int) string {
	letters := make([]byte, n)
	for i := range letters {
		letters[i] = byte('a' + random.IntN(26))
	}
	return string(letters)
}

// next begins a new revision of the specs, whose times are measured from now on.
func (f *echoFleet) next() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	f.took = nil
	clear(f.since)
}

// write creates an Echo at the first revision, and later changes its spec. due is when
// this should have happened, and is where its time begins.
func (f *echoFleet) write(i int, due time.Time) error {
	f.mu.Lock()
	revision := f.revision
	f.since[i] = due
	f.mu.Unlock()
	if revision == 1 {
		return tryCreate(f.tb.Context(), echoes, "Echo", f.ns, echoName(i), echoSpec(i, 1, f.bytes))
	}
	spec := fmt.Sprintf(`{"spec":{"revision":%d,"text":"revision %[1]d of %s"}}`, revision, randomText(rand.New(rand.NewPCG(uint64(i), uint64(revision))), 80))
	return patch(f.tb.Context(), echoes, f.ns, echoName(i), spec)
}

// watch observes the statuses until the test ends, from now on. The API server ends a
// watch of a kind whose CRD is new, so it is continued.
func (f *echoFleet) watch() {
	f.tb.Helper()
	resource := objects.Resource(echoes).Namespace(f.ns)
	now, err := resource.List(f.tb.Context(), metav1.ListOptions{Limit: 1})
	must(f.tb, err)
	w, err := watchtools.NewRetryWatcherWithContext(f.tb.Context(), now.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, options)
		},
	})
	must(f.tb, err)
	f.tb.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			if o, ok := e.Object.(*unstructured.Unstructured); ok {
				f.observe(o, time.Now())
			}
		}
	}()
}

func (f *echoFleet) observe(o *unstructured.Unstructured, at time.Time) {
	shown, _, _ := unstructured.NestedInt64(o.Object, "status", "revision")
	var i int
	if _, err := fmt.Sscanf(o.GetName(), "echo-%d", &i); err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if since, waits := f.since[i]; waits && shown == int64(f.revision) {
		f.took = append(f.took, at.Sub(since))
		delete(f.since, i)
	}
}

// awaitStatuses waits until the status of every Echo that was written shows it, and
// returns how long each took. Where that is longer than the limit, the time so far
// counts.
func (f *echoFleet) awaitStatuses(limit time.Duration) (took latencies, missing int) {
	f.tb.Helper()
	await.Poll(limit, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.since) == 0
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	took, missing = f.took, len(f.since)
	for _, since := range f.since {
		took = append(took, time.Since(since))
	}
	return took, missing
}

// edit changes the specs of so many Echoes, which are distributed over all of them, and
// returns how long their statuses took.
func (f *echoFleet) edit(b *testing.B, many int, interval time.Duration) latencies {
	b.Helper()
	many = min(many, f.many)
	f.next()
	must(b, paced(many, interval, func(i int, due time.Time) error { return f.write(i*(f.many/many), due) }))
	took, missing := f.awaitStatuses(benchLimit)
	if missing > 0 {
		b.Fatalf("%d statuses do not show the change", missing)
	}
	return took
}

// size returns the bytes of JSON of an Echo without managed fields.
func (f *echoFleet) size() int {
	f.tb.Helper()
	o, err := objects.Resource(echoes).Namespace(f.ns).Get(f.tb.Context(), echoName(0), metav1.GetOptions{})
	must(f.tb, err)
	o.SetManagedFields(nil)
	encoded, err := json.Marshal(o.Object)
	must(f.tb, err)
	return len(encoded)
}

// paced calls f with 0 to n-1 at times that are an interval apart, whether or not
// earlier calls have returned, and returns the first error. due is when f should have
// been called.
func paced(n int, interval time.Duration, f func(i int, due time.Time) error) error {
	var group errgroup.Group
	begin := time.Now()
	for i := range n {
		due := begin.Add(time.Duration(i) * interval)
		<-time.After(time.Until(due))
		group.Go(func() error { return f(i, due) })
	}
	return group.Wait()
}
