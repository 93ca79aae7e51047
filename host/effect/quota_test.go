package effect

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// bytesBy is what a cache shows of what a plugin has stored.
func (s *store) bytesBy(prefix string) (size int, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects {
		if s.metadata[o.Kind] {
			o = o.Metadata()
		}
		size += o.BytesBy(prefix)
	}
	return size, true
}

// bounded are the limits of bytes of a performer, which counts what is in the store.
func bounded(w **world, stored, churn int64) func(*Config) {
	return func(c *Config) {
		c.StoredBytes, c.ChurnBytes = stored, churn
		c.CountBytes = func(prefix string) (int, bool) { return (*w).store.bytesBy(prefix) }
	}
}

// stored returns how many bytes an object has, with everything that the server keeps.
func (w *world) stored(r object.Resource, name string) int {
	w.Helper()
	raw, err := send(w.Context(), w.admin.read(r, w.key(r, name)))
	if err != nil {
		w.Fatal(err)
	}
	return len(raw)
}

func text(n int) string { return strings.Repeat("x", n) }

// wayToStore is a way in which a plugin stores more and more. It returns the object that the
// i-th step wrote.
type wayToStore struct {
	metadata []object.Resource // of which only metadata is kept
	write    func(w *world, t *Target, i int) (object.Resource, string, *Failure)
}

// applied returns a way that applies an object in each step.
func applied(format string) func(w *world, t *Target, i int) (object.Resource, string, *Failure) {
	return func(w *world, t *Target, i int) (object.Resource, string, *Failure) {
		name := fmt.Sprint("c", i)
		_, failure := w.PerformIntents(w.Context(), *t, apply(format, name))
		return configMap, name, failure
	}
}

const configMapNamed = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q`

var waysToStore = map[string]wayToStore{
	"small objects":                          {write: applied(configMapNamed + `}}`)},
	"large objects":                          {write: applied(configMapNamed + `},"data":{"a":"` + text(40<<10) + `"}}`)},
	"many values":                            {write: applied(configMapNamed + `},"data":{` + manyValues + `}}`)},
	"annotations":                            {write: applied(configMapNamed + `,"annotations":{"a":"` + text(20<<10) + `"}}}`)},
	"objects in parts":                       {metadata: list(configMap), write: applied(configMapNamed + `},"data":{"a":"` + text(40<<10) + `"}}`)},
	"objects of which only metadata is kept": {metadata: list(configMap), write: applied(configMapNamed + `},"binaryData":{"a":"` + text(40<<10) + `"}}`)},
	"one object that grows": {write: func(w *world, t *Target, i int) (object.Resource, string, *Failure) {
		_, failure := w.PerformIntents(w.Context(), *t, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":%q}}`, text((i+1)*10<<10)))
		return configMap, "c", failure
	}},
	"patches of primaries": {write: func(w *world, _ *Target, i int) (object.Resource, string, *Failure) {
		t := w.primary(fmt.Sprint("p", i))
		_, failure := w.PerformIntents(w.Context(), t, &abi.Result{Patch: fmt.Appendf(nil, `{"metadata":{"annotations":{"a":%q}}}`, text(20<<10))})
		return widget, t.Object.Name, failure
	}},
	"status": {write: func(w *world, _ *Target, i int) (object.Resource, string, *Failure) {
		t := w.primary(fmt.Sprint("p", i))
		_, failure := w.WriteStatus(w.Context(), t, Status{Patch: fmt.Appendf(nil, `{"note":%q}`, text(20<<10))})
		return widget, t.Object.Name, failure
	}},
}

var manyValues = func() string {
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprintf(`"%d":""`, i))
	}
	return strings.Join(all, ",")
}()

// primary creates a Widget of that name.
func (w *world) primary(name string) Target {
	w.Helper()
	o := w.create(widget, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"size":1}}`, name))
	w.store.put(o)
	return Target{Controller: controller(list(configMap), nil), Object: o}
}

// However a plugin stores bytes, it is refused at about its limit, also after a restart, and
// goes on when some were deleted.
func TestStoredBytesAreBounded(t *testing.T) {
	const limit = 256 << 10
	for name, way := range waysToStore {
		for _, shared := range []bool{false, true} {
			if shared && (strings.Contains(name, "primaries") || name == "status") {
				continue
			}
			t.Run(fmt.Sprintf("%s, shared %v", name, shared), func(t *testing.T) {
				var w *world
				w = newCluster(t, bounded(&w, limit, 0))
				target := w.owner(list(configMap), nil)
				if shared {
					target = Target{Controller: controller(nil, list(configMap)), Object: target.Object}
				}
				w.store.metadata = map[abi.Kind]bool{}
				for _, r := range way.metadata {
					w.store.metadata[r.Kind] = true
				}
				sizes, last, i := map[string]int{}, "", 0
				step := func() (object.Resource, *Failure) {
					r, name, failure := way.write(w, &target, i)
					if i++; failure == nil {
						w.seen(r, name)
						sizes[name], last = w.stored(r, name), name
					}
					return r, failure
				}
				_, failure := step()
				for failure == nil && i < 500 {
					_, failure = step()
				}
				sum := 0
				for _, n := range sizes {
					sum += n
				}
				if failure == nil || !failure.Full || failure.Reason != reasonStoredLimit || failure.Class != abi.ClassDenied || sum < limit/2 || sum > limit*3/2 {
					t.Fatalf("after %d bytes in %d objects: %+v", sum, len(sizes), failure)
				}
				w.start(bounded(&w, limit, 0))
				r, failure := step()
				if failure == nil || !failure.Full {
					t.Fatalf("after a restart: %+v", failure)
				}
				w.remove(r, last)
				w.seen(r, last)
				w.now = w.now.Add(time.Minute)
				if _, failure = step(); len(sizes) > 1 && failure != nil {
					t.Errorf("after a deletion by another: %v", failure)
				}
			})
		}
	}
}

// What the cache does not show yet counts: it may be counted again as soon as a write is
// near the limit.
func TestStoredBytesThatTheCacheDoesNotShowCount(t *testing.T) {
	const limit = 256 << 10
	var w *world
	w = newCluster(t, bounded(&w, limit, 0))
	target := w.owner(list(configMap), nil)
	for i := range 20 {
		w.now = w.now.Add(2 * minRecount)
		_, failure := w.PerformIntents(w.Context(), target, apply(configMapNamed+`},"data":{"a":%q}}`, fmt.Sprint("c", i), text(40<<10)))
		switch {
		case failure != nil && failure.Full && i >= 4:
			return
		case failure != nil || i*40<<10 > limit:
			t.Fatalf("after %d objects of 40 KiB: %v", i, failure)
		}
	}
}

// What is there already may be written again, deleted, and told about.
func TestAPluginAtItsLimitOfStoredBytesCanGoOn(t *testing.T) {
	const limit = 64 << 10
	var w *world
	w = newCluster(t, bounded(&w, limit, 0))
	target := w.owner(list(configMap), nil)
	const large = configMapNamed + `},"data":{"a":%q}}`
	w.intents(target, apply(large, "a", text(40<<10)))
	w.intents(target, apply(large, "b", text(20<<10)))
	w.seen(configMap, "a")
	w.seen(configMap, "b")
	if _, failure := w.PerformIntents(w.Context(), target, apply(large, "c", text(10<<10))); failure == nil || !strings.Contains(failure.Message, "limits.storedMiB") {
		t.Fatal(failure)
	}
	w.intents(target, apply(large, "a", strings.Repeat("y", 40<<10))) // of the same size
	if _, failure := w.WriteStatus(w.Context(), target, Status{Patch: []byte(`{"note":"` + text(5<<10) + `"}`)}); failure == nil {
		t.Error("a status was written beyond the limit")
	}
	w.status(&target, Status{Set: []abi.Condition{{Type: "Ready", Status: "False", Reason: "StoredLimit", Message: "m"}}, Full: true})
	if field(w.live(widget, "w"), "status", "conditions") == "" {
		t.Error("the status does not tell of the limit")
	}
	w.intents(target, &abi.Result{Delete: []abi.Delete{{Ref: configMap.Kind.Ref(w.ns, "b")}}})
	w.seen(configMap, "b")
	w.intents(target, apply(large, "c", text(10<<10)))
}

// Requests in progress count: there may be a thousand at once.
func TestWritesAtOnceStoreNoMoreThanOne(t *testing.T) {
	const limit, size = 100 << 10, 20 << 10
	var w *world
	w = newCluster(t, bounded(&w, limit, 0))
	var all sync.WaitGroup
	var done atomic.Int32
	for i := range 30 {
		target := w.primary(fmt.Sprint("p", i))
		all.Go(func() {
			_, failure := w.PerformIntents(t.Context(), target, apply(configMapNamed+`},"data":{"a":%q}}`, fmt.Sprint("c", i), text(size)))
			if failure == nil {
				done.Add(1)
			} else if !failure.Full {
				t.Error(failure)
			}
		})
	}
	all.Wait()
	if n := done.Load(); n != limit/size-1 {
		t.Errorf("%d objects of %d bytes are stored", n, size)
	}
}

// A version of an object is stored as a whole, however small the change.
func TestChurnedBytesAreBounded(t *testing.T) {
	const limit = 512 << 10
	for name, write := range map[string]func(w *world, t *Target, i int) *Failure{
		"one object is written again": func(w *world, t *Target, i int) *Failure {
			_, failure := w.PerformIntents(w.Context(), *t, apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"n":"%d","a":%q}}`, i, text(40<<10)))
			w.seen(configMap, "c")
			return failure
		},
		"a small status of a large object": func(w *world, t *Target, i int) *Failure {
			report, failure := w.WriteStatus(w.Context(), *t, Status{Patch: fmt.Appendf(nil, `{"count":%d}`, i)})
			if report.Primary != nil {
				t.Object = report.Primary
			}
			return failure
		},
		"created and deleted": func(w *world, t *Target, i int) *Failure {
			_, failure := w.PerformIntents(w.Context(), *t, apply(configMapNamed+`},"data":{"a":%q}}`, fmt.Sprint("c", i), text(40<<10)))
			if failure == nil {
				w.seen(configMap, fmt.Sprint("c", i))
				w.intents(*t, &abi.Result{Delete: []abi.Delete{{Ref: configMap.Kind.Ref(w.ns, fmt.Sprint("c", i))}}})
				w.seen(configMap, fmt.Sprint("c", i))
			}
			return failure
		},
	} {
		t.Run(name, func(t *testing.T) {
			var w *world
			w = newCluster(t, bounded(&w, 0, limit))
			target := Target{Controller: controller(list(configMap), nil), Object: w.create(widget, `{"metadata":{"name":"w"},"spec":{"tags":["`+text(40<<10)+`"]}}`)}
			i := 0
			until := func() (done int) {
				for range 100 {
					if i++; true {
						failure := write(w, &target, i)
						if failure != nil && failure.Full && failure.Reason == reasonChurnLimit {
							return done
						} else if failure != nil {
							t.Fatal(failure)
						}
					}
					done++
				}
				t.Fatal("never refused")
				return 0
			}
			if done := until(); done < 11 || done > 13 {
				t.Fatalf("refused after %d writes of 41 KiB", done)
			}
			w.status(&target, Status{Set: []abi.Condition{{Type: "Ready", Status: "False", Reason: "ChurnLimit", Message: "m"}}, Full: true})
			w.now = w.now.Add(ChurnPeriod / 4)
			if done := until(); done < 2 || done > 4 {
				t.Errorf("%d writes after a quarter of the time", done)
			}
			w.now = w.now.Add(10 * ChurnPeriod)
			if done := until(); done < 11 || done > 13 {
				t.Errorf("%d writes after a long pause", done)
			}
		})
	}
}

// What others store in an object that a plugin shares is theirs, as is the spec of a primary.
func TestBytesOfOthersAreNotCounted(t *testing.T) {
	const limit = 64 << 10
	var w *world
	w = newCluster(t, bounded(&w, limit, 0))
	for i := range 4 {
		w.create(configMap, fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"a":%q}}`, i, text(100<<10)))
		w.seen(configMap, fmt.Sprint("c", i))
	}
	target := w.owner(nil, list(configMap))
	target.Object = w.edit(widget, "w", "", `{"spec":{"tags":["`+text(100<<10)+`"]}}`)
	target.Object = w.edit(widget, "w", "status", `{"status":{"note":"`+text(100<<10)+`"}}`)
	for i := range 4 {
		w.intents(target, apply(configMapNamed+`,"labels":{"a":"b"}}}`, fmt.Sprint("c", i)))
		w.seen(configMap, fmt.Sprint("c", i))
	}
	w.status(&target, Status{Patch: []byte(`{"count":1}`)})
	w.store.put(target.Object)
	if size, _ := w.store.bytesBy(w.managerPrefix()); size < 4*512 || size > 8*1024 {
		t.Errorf("%d bytes are counted", size)
	}
	w.start(bounded(&w, limit, 0), func(c *Config) { c.Plugin = "other" })
	if u := w.Usage(); u.StoredBytes != 0 {
		t.Errorf("%+v of a plugin that has written nothing", u)
	}
}

func TestALimitIsToldBeforeItIsReached(t *testing.T) {
	const limit = 100 << 10
	hits := map[string]int{}
	var w *world
	w = newCluster(t, bounded(&w, limit, 0), func(c *Config) { c.ObserveLimit = func(limit string) { hits[limit]++ } })
	target := w.owner(list(configMap), nil)
	told := 0
	for i := range 12 {
		_, failure := w.PerformIntents(w.Context(), target, apply(configMapNamed+`},"data":{"a":%q}}`, fmt.Sprint("c", i), text(10<<10)))
		w.seen(configMap, fmt.Sprint("c", i))
		told += w.toldNear()
		if told != 0 && i < 6 || told != 1 && i > 8 || failure != nil && (i < 8 || told == 0) {
			t.Fatalf("%d: %v, logged %d times", i, failure, told)
		}
	}
	if hits["stored"] == 0 || hits["churn"] != 0 {
		t.Errorf("hits: %v", hits)
	}
}

func TestADryRunStoresNothing(t *testing.T) {
	var w *world
	w = newCluster(t, bounded(&w, 1<<10, 1<<10), func(c *Config) { c.DryRun = true })
	target := w.owner(list(configMap), nil)
	for i := range 5 {
		w.intents(target, apply(configMapNamed+`},"data":{"a":%q}}`, fmt.Sprint("c", i), text(10<<10)))
	}
	if u := w.Usage(); u.StoredBytes+u.ChurnedBytes != 0 {
		t.Errorf("%+v", u)
	}
}

// toldNear returns how often it was logged that the plugin is near a limit.
func (w *world) toldNear() (n int) {
	for _, line := range w.logs.All() {
		if strings.Contains(fmt.Sprint(line), "near a limit") {
			n++
		}
	}
	return n
}
