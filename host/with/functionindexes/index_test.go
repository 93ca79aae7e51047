package functionindexes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/sandbox"
)

func TestMain(m *testing.M) { await.Main(m, func() error { return goleak.Find() }) }

var pod = abi.Kind{APIVersion: "v1", Kind: "Pod"}

// that waits until try returns nil.
func that(t testing.TB, try func() error) {
	t.Helper()
	if err := await.Success(try); err != nil {
		t.Error(err)
	}
}

// world has pods in a cache, and an index of them by the words of their label site.
type world struct {
	t     testing.TB
	cache *cache.Cache
	pods  *cache.Derived
	index *index

	mu     sync.Mutex
	woken  []string // owners
	calls  []string // pods for which the function was called
	spaces []string // namespaces of the calls
	failed []string // pods for which it has failed
	fails  func(name string) error
	gives  func(*object.Object) []contract.Entry
	denied map[string]bool // namespaces
	asked  error           // of asking what is allowed
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, denied: map[string]bool{}, fails: func(string) error { return nil }}
	w.gives = func(o *object.Object) (entries []contract.Entry) {
		for word := range strings.SplitSeq(o.Labels["site"], ".") {
			if word != "" {
				entries = append(entries, contract.Entry{Key: word, Value: []byte(`"` + o.Labels["value"] + `"`)})
			}
		}
		return entries
	}
	var err error
	w.cache, err = cache.New(cache.Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	w.cache.Subscribe(cache.Hooks{Wake: func(o cache.Owner, _ cache.Event, _ bool) {
		w.note(func() { w.woken = append(w.woken, o.Key.Name) })
	}})
	w.pods, err = w.cache.Derive(pod, true)
	if err != nil {
		t.Fatal(err)
	}
	w.pods.Complete()
	t.Cleanup(func() {
		if w.index != nil {
			w.index.stop()
		}
		w.cache.Stop()
	})
	return w
}

func (w *world) note(how func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	how()
}

// pod puts a pod that belongs to the sites.
func (w *world) pod(name, sites, value string) {
	w.t.Helper()
	namespace, name, _ := strings.Cut(name, "/")
	raw := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":%q,"labels":{"site":%q,"value":%q}}}`,
		namespace, name, name, sites+" "+value, sites, value)
	o, err := object.Parse([]byte(raw), pod)
	if err != nil {
		w.t.Fatal(err)
	}
	w.pods.Put(o)
}

// Call calls the function.
func (w *world) Call(_ context.Context, export string, call sandbox.Call) (sandbox.Return, error) {
	if export != contract.Export {
		w.t.Errorf("the export %s is called", export)
	}
	q, err := contract.DecodeRequest(slices.Concat(call.Request...))
	if err != nil {
		return sandbox.Return{}, err
	}
	o, err := object.Parse(q.Object, pod)
	if err != nil {
		return sandbox.Return{}, err
	}
	w.mu.Lock()
	w.calls, w.spaces = append(w.calls, o.Name), append(w.spaces, call.Namespace)
	fails, entries := w.fails(o.Name), w.gives(o)
	w.mu.Unlock()
	if fails != nil {
		return sandbox.Return{}, fails
	}
	return sandbox.Return{Output: contract.EncodeResult(&contract.Result{Entries: entries})}, nil
}

// rightsOf is what the plugin may read.
type rightsOf struct{ *world }

func (w rightsOf) May(_ context.Context, verb string, kind abi.Kind, key object.Key) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case verb != rights.List || kind != pod || key.Name != "":
		w.t.Errorf("asked for %s of %s %s", verb, kind, key)
	case w.denied[key.Namespace]:
		return &access.DeniedError{}
	}
	return w.asked
}

func (rightsOf) Known(string, abi.Kind, object.Key) (allowed, known bool) { return false, false }

// start starts the index, in the place of the one before.
func (w *world) start() {
	w.t.Helper()
	x, err := start(config{
		plugin: "web", name: "by-site", guest: w, objects: w.pods.Informer(), access: rightsOf{w}, logger: hclog.NewNullLogger(),
		failed: func(o *object.Object, _ error) { w.note(func() { w.failed = append(w.failed, o.Name) }) },
	}, w.index)
	if err != nil {
		w.t.Fatal(err)
	}
	w.index = x
}

// read reads a key as a run of an owner does, in a namespace or in all.
func (w *world) read(owner, namespace, key string) (found []string, err error) {
	run := w.cache.Begin(cache.Owner{Controller: "web/site", Key: object.Key{Name: owner}}, &cache.OwnWrites{}, w.cache.Derived)
	defer run.Commit()
	reading := having("web", contract.Index{Name: "by-site", Kind: pod}, key)
	if namespace != "" {
		reading.Namespaces = []string{namespace}
	}
	list, err := run.List(reading)
	for _, o := range list.Items {
		item, err := lookup(o, key)
		if err != nil {
			w.t.Fatal(err)
		}
		found = append(found, item.Namespace+"/"+item.Name+"="+strings.Trim(string(item.Value), `"`))
	}
	return found, err
}

func (w *world) expect(key string, want ...string) {
	w.t.Helper()
	that(w.t, func() error {
		got, err := w.read("reader", "", key)
		if err != nil {
			return err
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s is had by %q, want %q", key, got, want)
		}
		return nil
	})
}

func TestObjectsAreFoundByTheirKeys(t *testing.T) {
	w := newWorld(t)
	w.pod("a/one", "shop.news", "1")
	w.pod("a/two", "shop", "2")
	w.pod("b/three", "shop", "3")
	w.pod("b/four", "", "4")
	w.start()
	w.expect("shop", "a/one=1", "a/two=2", "b/three=3")
	w.expect("news", "a/one=1")
	w.expect("sho")
	if got, err := w.read("reader", "b", "shop"); err != nil || !slices.Equal(got, []string{"b/three=3"}) {
		t.Errorf("in a namespace: %q, %v", got, err)
	}
	w.pod("a/two", "news", "2")
	w.expect("news", "a/one=1", "a/two=2")
	w.pods.Remove(object.Key{Namespace: "a", Name: "one"})
	w.expect("news", "a/two=2")
	w.pod("a/two", "", "2")
	w.expect("news")
	w.note(func() {
		slices.Sort(w.spaces)
		if got := slices.Compact(w.spaces); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("the calls were made in the namespaces %q", got)
		}
	})
}

func TestRunsReadNothingBeforeEveryObjectHasItsKeys(t *testing.T) {
	w := newWorld(t)
	w.gives = func(*object.Object) []contract.Entry { return nil }
	w.pod("a/one", "shop", "1")
	w.asked = errors.New("the API server does not answer")
	w.start()
	if _, err := w.read("early", "", "shop"); !errors.Is(err, cache.ErrNotSynced) {
		t.Errorf("before that: %v", err)
	}
	w.note(func() { w.asked = nil })
	that(t, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.Contains(w.woken, "early") {
			return errors.New("who has read too early is not woken")
		}
		return nil
	})
}

// settle waits until the events of all changes so far were delivered, which are in order.
func (w *world) settle() {
	w.t.Helper()
	if _, err := w.read("last", "", "last"); err != nil {
		w.t.Fatal(err)
	}
	w.pod("z/last", "last", "1")
	that(w.t, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.Contains(w.woken, "last") {
			return errors.New("the event of the last change was not delivered")
		}
		return nil
	})
}

func TestWhoHasReadAKeyIsWokenByItsChanges(t *testing.T) {
	w := newWorld(t)
	w.pod("a/one", "shop", "1")
	w.pod("a/two", "news", "1")
	w.start()
	w.expect("shop", "a/one=1")
	w.settle()
	for owner, key := range map[string]string{"shops": "shop", "news": "news"} {
		if _, err := w.read(owner, "a", key); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, want ...string) {
		t.Helper()
		that(t, func() error {
			w.mu.Lock()
			defer w.mu.Unlock()
			got := slices.DeleteFunc(slices.Clone(w.woken), func(o string) bool { return o == "reader" })
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				return fmt.Errorf("%s wakes %q, want %q", what, got, want)
			}
			return nil
		})
		w.note(func() { w.woken = nil })
	}
	w.note(func() { w.woken = nil })
	w.pod("a/one", "shop", "2")
	expect("another value", "shops")
	w.pod("a/three", "shop", "1")
	expect("another object", "shops")
	w.pod("a/one", "news", "2")
	expect("another key", "news", "shops")
	w.pods.Remove(object.Key{Namespace: "a", Name: "two"})
	expect("an object that is gone", "news")
	w.pod("b/one", "shop", "1")
	w.pod("a/four", "else", "1")
	w.expect("else", "a/four=1")
	expect("what is of another namespace or key")
}

func TestAnObjectKeepsItsKeysWhileTheFunctionFails(t *testing.T) {
	for name, fails := range map[string]func(*world){
		"trap": func(w *world) { w.fails = func(string) error { return &sandbox.Fault{Class: abi.ClassPanic} } },
		"too many keys": func(w *world) {
			w.gives = func(*object.Object) []contract.Entry { return make([]contract.Entry, 10_000) }
		},
		"a key twice": func(w *world) { w.gives = func(*object.Object) []contract.Entry { return make([]contract.Entry, 2) } },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.pod("a/one", "shop", "1")
			w.start()
			w.expect("shop", "a/one=1")
			gives := w.gives
			w.note(func() { fails(w) })
			w.pod("a/one", "news", "2")
			awaitFailure(t, w)
			w.expect("shop", "a/one=1")
			w.start() // another revision, for which it fails too
			awaitFailure(t, w)
			w.expect("shop", "a/one=1")
			w.note(func() { w.gives, w.fails = gives, func(string) error { return nil } })
			w.pod("a/one", "news", "3")
			w.expect("news", "a/one=3")
			w.expect("shop")
		})
	}
}

func awaitFailure(t *testing.T, w *world) {
	t.Helper()
	that(t, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.failed) == 0 {
			return errors.New("no failure is reported")
		}
		w.failed = nil
		return nil
	})
}

func TestAnotherRevisionGivesOtherKeys(t *testing.T) {
	w := newWorld(t)
	w.pod("a/one", "shop", "1")
	w.start()
	w.expect("shop", "a/one=1")
	w.note(func() {
		w.gives = func(o *object.Object) []contract.Entry { return []contract.Entry{{Key: o.Name}} }
	})
	w.start()
	w.expect("one", "a/one=")
	w.expect("shop")
}

func TestWhatThePluginMayNotReadHasNoKeys(t *testing.T) {
	w := newWorld(t)
	w.denied["b"] = true
	w.pod("a/one", "shop", "1")
	w.pod("b/two", "shop", "1")
	w.start()
	w.expect("shop", "a/one=1")
	w.note(func() {
		if slices.Contains(w.calls, "two") {
			t.Error("the function has seen the object")
		}
		w.denied = map[string]bool{}
	})
	w.index.refresh() // the right is granted
	w.expect("shop", "a/one=1", "b/two=1")
}

func TestSameEntriesAreNoChange(t *testing.T) {
	w := newWorld(t)
	w.gives = func(*object.Object) []contract.Entry { return []contract.Entry{{Key: "all"}} }
	w.pod("a/one", "shop", "1")
	w.start()
	w.expect("all", "a/one=")
	w.note(func() { w.woken, w.calls = nil, nil })
	w.pod("a/one", "shop", "2")
	that(t, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.calls) == 0 {
			return errors.New("the function is not called")
		}
		return nil
	})
	w.pod("a/two", "shop", "1")
	w.expect("all", "a/one=", "a/two=") // the events before have come
	w.note(func() {
		if n := len(w.woken); n > 1 {
			t.Errorf("woken %d times", n)
		}
	})
}
