package runner

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/rights"
)

// followWorld has a controller that follows widgets.
type followWorld struct {
	t         *testing.T
	cache     *cache.Cache
	informers informers
	c         *controller
	queue     *queue.Queue
}

func newFollowWorld(t *testing.T) *followWorld {
	_, url := startRefusingServer(t)
	c, err := cache.New(cache.Config{REST: &rest.Config{Host: url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	w := &followWorld{t: t, cache: c, queue: queue.New(queue.Config{}), c: &controller{id: "p/c"}}
	t.Cleanup(w.queue.ShutDown)
	w.c.Controller = dispatch.New(dispatch.Config{
		Plugin: "p", Name: "c", Workers: 1, Events: events.Observers(), Logger: hclog.NewNullLogger(),
		Cache: controllerCache{cache: c, controller: "p/c", primaries: &w.c.primaries, informers: &w.informers, ownWrites: &cache.OwnWrites{}, written: &written{}},
	}, w.queue, &dispatch.Revision{Controller: abi.Controller{Name: "c", For: widgets.All()}})
	return w
}

// serve makes the informer of a scope the one of widgets.
func (w *followWorld) serve(s scope.Scope) {
	w.t.Helper()
	i, err := w.cache.Acquire(w.t.Context(), s)
	if err == nil {
		err = i.WaitForSync(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.informers.replace(map[abi.Kind]*cache.Informer{widgets: i})
}

func (w *followWorld) follow(follows scope.Controller, watches ...abi.Watch) {
	w.c.follow(&dispatch.Revision{Controller: abi.Controller{Name: "c", For: widgets.All(), Watches: watches}, Scopes: follows}, &w.informers)
}

// A handler on an informer that the plugin has given up would receive nothing more once
// that has stopped. One on the same informer stays: a new one would run every object.
func TestAHandlerMovesWithTheInformer(t *testing.T) {
	w := newFollowWorld(t)
	inA, inB := scope.Scope{Kind: widgets, Namespaces: []string{"a"}}, scope.Scope{Kind: widgets, Namespaces: []string{"b"}}
	watch := abi.Watch{Followed: widgets.All(), By: abi.WatchByLabel, Key: "w"}
	w.serve(inA)
	w.follow(scope.Controller{For: inA, Owns: []scope.Scope{inA}, Watches: []scope.Scope{inA}}, watch)
	if len(w.c.handlers) != 3 || w.c.primaries.Load().Scope().String() != inA.String() {
		t.Errorf("%d handlers, reconciles %s", len(w.c.handlers), w.c.primaries.Load().Scope())
	}
	await.Until(t, "the object is due", func() bool { return w.queue.Len() == 1 })
	item, _ := w.queue.Next()
	w.queue.Done(item.Key, outcome.Next{})

	first := w.watchRemovals()
	w.follow(scope.Controller{For: inA, Owns: []scope.Scope{inA}}) // without the watch
	if len(w.c.handlers) != 2 || !slices.Equal(*first, []string{"watches by label w"}) {
		t.Errorf("%d handlers, removed %q", len(w.c.handlers), *first)
	}
	w.serve(scope.All(widgets)) // as another controller of the plugin may need it
	second := w.watchRemovals()
	w.follow(scope.Controller{For: inA, Owns: []scope.Scope{inA}})
	if len(w.c.handlers) != 2 || !slices.Equal(*second, []string{"for", "owns"}) {
		t.Errorf("%d handlers, removed %q", len(w.c.handlers), *second)
	}
	for f, h := range w.c.handlers {
		if !h.informer.IsServedAs(w.informers.get(widgets)) {
			t.Errorf("%s is handled by the informer of before", f.role)
		}
	}
	third := w.watchRemovals()
	w.follow(scope.Controller{For: inB, Owns: []scope.Scope{inA}})
	if !slices.Equal(*third, []string{"for"}) || len(w.c.keys(everyKey)) != 0 {
		t.Errorf("with other primaries, removed %q, reconciles %v", *third, w.c.keys(everyKey))
	}
}

// The informers are replaced before the controllers have the next revision, which may
// follow less: a list would lack objects, and one that is there would not be found.
func TestARunReadsNoInformerThatHasLessThanItsRevisionFollows(t *testing.T) {
	w := newFollowWorld(t)
	all, inA := scope.Scope{Kind: widgets}, scope.Scope{Kind: widgets, Namespaces: []string{"a"}}
	metadata := scope.Scope{Kind: widgets, MetadataOnly: true}
	for _, c := range []struct {
		informer scope.Scope
		follows  scope.Reads
		want     error
	}{
		{all, scope.Reads{all}, nil},
		{all, scope.Reads{inA, metadata}, nil},
		{inA, scope.Reads{inA}, nil},
		{inA, scope.Reads{all}, cache.ErrNotFollowed},
		{inA, scope.Reads{inA, metadata}, cache.ErrNotFollowed},
		{metadata, scope.Reads{all}, cache.ErrNotFollowed},
	} {
		w.serve(c.informer)
		run := w.c.Cache.Begin(object.Key{Namespace: "a", Name: "w"}, map[abi.Kind]scope.Reads{widgets: c.follows})
		if _, err := run.List(cache.Reading{Kind: widgets, Namespaces: []string{"a"}}); !errors.Is(err, c.want) {
			t.Errorf("what follows %v reads an informer of %s: %v", c.follows, c.informer, err)
		}
		run.Abandon()
	}
}

func everyKey(object.Key) bool { return true }

// watchRemovals notes the roles of the handlers that are removed from now on, sorted.
func (w *followWorld) watchRemovals() *[]string {
	removed := &[]string{}
	for f, h := range w.c.handlers {
		remove := h.remove
		h.remove = func() {
			remove()
			*removed = append(*removed, f.role)
			slices.Sort(*removed)
		}
		w.c.handlers[f] = h
	}
	return removed
}

// What is not followed may exist, and what is followed and not shown does not.
func TestEffectsAreToldWhatIsNotFollowed(t *testing.T) {
	w := newFollowWorld(t)
	store := effectStore{w.cache, "p", &w.informers, &cache.OwnWrites{}, &written{}}
	expect := func(namespace, name string, want effect.Presence) {
		t.Helper()
		if _, got := store.Get(widgets, object.Key{Namespace: namespace, Name: name}); got != want {
			t.Errorf("%s/%s is %d, want %d", namespace, name, got, want)
		}
	}
	expect("a", "w", effect.Unknown)
	w.serve(scope.Scope{Kind: widgets, Namespaces: []string{"a"}})
	expect("a", "w", effect.Present)
	expect("a", "x", effect.Absent)
	expect("b", "w", effect.Unknown)
	labelled, err := scope.Of(abi.Followed{Kind: widgets, Selector: abi.Selector{LabelSelector: "app", Namespaces: []string{"a"}}})
	if err != nil {
		t.Fatal(err)
	}
	w.serve(labelled)
	expect("a", "w", effect.Unselected)
}

func TestAPluginIsLabelledOnceForWhatItOwns(t *testing.T) {
	_, url := startRefusingServer(t)
	r := &Runner{plugins: map[string]*plugin{}}
	rev := func(managed bool, namespaces []string, owns ...abi.Kind) *Revision {
		return &Revision{
			Revision: events.Revision{Plugin: "p"}, Policy: config.Policy{Namespaces: namespaces},
			Manifest: &abi.Manifest{Name: "p", Managed: managed, Controllers: []abi.Controller{{Name: "c", For: widgets.All(), Owns: abi.AllOf(owns...)}}},
		}
	}
	running := rev(true, []string{"a", "b"}, gadgets)
	performer, err := effect.New(effect.Config{REST: &rest.Config{Host: url}, Planner: effect.Planner{Plugin: "p", Store: effectStore{}, Managed: true, Namespaces: []string{"a", "b"}}, Recorder: noEvents{}})
	if err != nil {
		t.Fatal(err)
	}
	performer.Burst = 0 // as the policy has it
	p := &plugin{controllers: map[string]*controller{"c": {Controller: dispatch.New(dispatch.Config{}, nil, &dispatch.Revision{Controller: running.Manifest.Controllers[0]})}}}
	p.effects.Store(performer)
	if r.isManaged(running) {
		t.Error("a plugin that does not run is labelled")
	}
	r.plugins["p"] = p
	allowing := rev(true, []string{"a", "b"}, gadgets)
	allowing.Policy.Allow = rights.Everything()
	for name, test := range map[string]struct {
		rev  *Revision
		want bool
	}{
		"the same":             {running, true},
		"fewer namespaces":     {rev(true, []string{"b"}, gadgets), true},
		"owns less":            {rev(true, []string{"a"}), true},
		"owns another kind":    {rev(true, []string{"a"}, gadgets, widgets), false},
		"in another namespace": {rev(true, []string{"a", "c"}, gadgets), false},
		"in all namespaces":    {rev(true, nil, gadgets), false},
		"by other entries":     {allowing, false},
	} {
		if got := r.isManaged(test.rev); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if actsAs(performer, rev(false, []string{"a", "b"}, gadgets)) || !actsAs(performer, running) {
		t.Error("a performer that labels acts for a revision that is not managed")
	}
	if actsAs(performer, allowing) {
		t.Error("a performer acts for a revision whose policy has other entries")
	}
}

func TestNamespacesOfAClusterScopedKindAreRefused(t *testing.T) {
	url := startServer(t, func(out http.ResponseWriter, request *http.Request) bool {
		if request.URL.Path != "/apis/test.dev/v1" {
			return false
		}
		fmt.Fprint(out, strings.Replace(widgetResources, `"namespaced":true`, `"namespaced":false`, 1))
		return true
	})
	r := newRunner(t, url, "")
	start := func(namespaces ...string) error {
		policy := config.Policy{Allow: rights.Everything()}
		policy.Limits.Concurrency = 1
		return r.Start(t.Context(), &Revision{
			Revision: events.Revision{Plugin: "p", Number: 1, Digest: "d"}, Policy: policy,
			Manifest: &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "c", For: abi.Followed{Kind: widgets, Selector: abi.Selector{Namespaces: namespaces}}}}},
		}, func() error { return nil })
	}
	if err := start("a"); err == nil || !strings.Contains(err.Error(), `controller "c": test.dev/v1 Widget is cluster-scoped`) {
		t.Errorf("got %v", err)
	}
	if err := start(); err != nil {
		t.Error(err)
	}
}
