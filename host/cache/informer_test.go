package cache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clocktest "k8s.io/utils/clock/testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func TestWatchListIsUsed(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	follow(t, open(t, p, Config{}))
	got := p.received()
	if len(got) != 1 {
		t.Fatalf("%d requests, want 1: %v", len(got), got)
	}
	want := url.Values{
		"watch": {"true"}, "sendInitialEvents": {"true"}, "resourceVersionMatch": {"NotOlderThan"},
		"allowWatchBookmarks": {"true"},
	}
	for name := range want {
		if got[0].Get(name) != want.Get(name) {
			t.Errorf("%s: got %q, want %q", name, got[0].Get(name), want.Get(name))
		}
	}
	if accept := p.requests[0].Header.Get("Accept"); accept != "application/json" {
		t.Errorf("Accept: %s", accept)
	}
}

func TestListIsUsedWhereThereIsNoWatchList(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	p.set(true, func(r *http.Request) http.HandlerFunc {
		if !isWatchList(r.URL.Query()) {
			return nil
		}
		return func(w http.ResponseWriter, _ *http.Request) {
			writeStatus(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		}
	})
	logs := &lines{}
	i := follow(t, open(t, p, Config{Logger: logs.logger()}))
	o, ok := i.Get(object.Key{Namespace: "a", Name: "x"})
	if !ok || o.Kind != widget || o.UID != "uid-x" {
		t.Fatalf("got %v %v", o, ok)
	}
	r := record(t, i)
	p.put("a", "y")
	r.expect("initial a/x", "add a/y")
	if logs.String() != "" {
		t.Errorf("logged: %s", logs)
	}
}

func TestEventsComeInOrder(t *testing.T) {
	p := newPeer(t)
	p.put("b", "x")
	p.put("a", "y")
	i := follow(t, open(t, p, Config{}))
	r := record(t, i)
	p.put("a", "z")
	p.put("a", "z", `"labels":{"k":"v"}`)
	p.remove("b", "x")
	p.putUID("a", "y", "another")
	r.expect("initial a/y", "initial b/x", "add a/z", "update a/z", "delete b/x", "delete a/y", "add a/y")
	if got := names(i.List("", nil)); got != "a/y a/z" {
		t.Errorf("list: %s", got)
	}
	if got := names(i.List("a", labels.SelectorFromSet(labels.Set{"k": "v"}))); got != "a/z" {
		t.Errorf("list: %s", got)
	}
	if got := names(i.List("b", nil)); got != "" {
		t.Errorf("list: %s", got)
	}
}

func TestHandlerMayCallBack(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	c := open(t, p, Config{})
	i := follow(t, c)
	second := make(chan string, 10)
	i.AddHandler(func(e Event) {
		if len(i.List("", nil)) == 0 || !i.HasSynced() {
			t.Error("the store is behind the event")
		}
		another, err := c.Acquire(t.Context(), widget)
		if err != nil {
			t.Error(err)
			return
		}
		another.AddHandler(func(e Event) { second <- describe(e) })
		another.Release()
		c.Stats()
	})
	if got := receive(t, second); got != "initial a/x" {
		t.Errorf("got %s", got)
	}
}

func TestRemovedHandlerIsNotCalled(t *testing.T) {
	p := newPeer(t)
	i := follow(t, open(t, p, Config{}))
	var first recorder
	first.events = make(chan string, 10)
	remove := i.AddHandler(first.note)
	second := record(t, i)
	p.put("a", "x")
	second.expect("add a/x")
	remove()
	p.put("a", "y")
	second.expect("add a/y")
	if len(first.events) != 1 {
		t.Errorf("%d events, want 1", len(first.events))
	}
}

func TestExpiredWatchIsListedAgain(t *testing.T) {
	p := newPeer(t)
	p.put("a", "gone")
	p.put("a", "changed")
	p.put("a", "same")
	logs := &lines{}
	i := follow(t, open(t, p, Config{Logger: logs.logger()}))
	p.next(isWatchList)
	r := record(t, i)
	r.expect("initial a/changed", "initial a/gone", "initial a/same")
	p.silence(true)
	p.remove("a", "gone")
	p.put("a", "changed")
	p.put("a", "new")
	p.silence(false)
	p.send("ERROR", status(http.StatusGone, metav1.StatusReasonExpired))
	p.next(isWatchList)
	got := map[string]bool{}
	for range 3 {
		got[receive(t, r.events)] = true
	}
	if !got["delete a/gone"] || !got["update a/changed"] || !got["add a/new"] {
		t.Errorf("got %v", got)
	}
	r.none()
	if logs.String() != "" {
		t.Errorf("logged: %s", logs)
	}
}

func TestDroppedConnectionLosesNothing(t *testing.T) {
	p := newPeer(t)
	version := p.put("a", "x")
	i := follow(t, open(t, p, Config{}))
	r := record(t, i)
	r.expect("initial a/x")
	p.put("a", "y") // a watch without any event is counted as failed
	r.expect("add a/y")
	p.silence(true)
	p.cutWatches()
	p.next(isRewatch)
	p.silence(false)
	p.put("a", "z")
	r.expect("add a/z")
	if !i.Reached(version) {
		t.Error("went back")
	}
}

func TestTornEventIsReadAgain(t *testing.T) {
	p := newPeer(t)
	torn := false
	p.set(true, func(r *http.Request) http.HandlerFunc {
		if torn || !isWatchList(r.URL.Query()) {
			return nil
		}
		torn = true
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"type":"ADDED","object":{"kind":"Widget","apiVersion":"example.dev/v1","metadata":{"na`))
		}
	})
	p.put("a", "x")
	i := follow(t, open(t, p, Config{}))
	if got := names(i.List("", nil)); got != "a/x" {
		t.Errorf("list: %s", got)
	}
}

func TestStalledWatchIsListedAgain(t *testing.T) {
	p := newPeer(t)
	fake := clocktest.NewFakeClock(time.Now())
	i := follow(t, open(t, p, Config{Clock: fake}))
	p.next(isWatchList)
	r := record(t, i)
	heard(t, p, i)
	p.silence(true)
	p.put("a", "x")
	fake.Step(89 * time.Second)
	r.none()
	// The last bookmark may start the time anew only now.
	p.nextAfter(isWatchList, func() { fake.Step(2 * time.Second) })
	r.expect("add a/x")
}

// heard makes sure that the time in which a watch may be silent has begun at
// the present time of the clock: it begins anew some time after an event was
// passed on, but before the next one is.
func heard(t *testing.T, p *peer, i *Informer) {
	t.Helper()
	for range 2 {
		if err := i.WaitReached(within(t), p.bookmark()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBookmarkKeepsAWatch(t *testing.T) {
	p := newPeer(t)
	fake := clocktest.NewFakeClock(time.Now())
	i := follow(t, open(t, p, Config{Clock: fake}))
	for range 3 {
		heard(t, p, i)
		fake.Step(80 * time.Second)
	}
	heard(t, p, i)
	if n := len(p.received()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestSilentServerIsAskedAgain(t *testing.T) {
	p := newPeer(t)
	asked := make(chan struct{}, 100)
	p.set(true, func(r *http.Request) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			<-r.Context().Done()
		}
	})
	// Long enough for a server that answers, on a busy machine.
	c := open(t, p, Config{StallAfter: 500 * time.Millisecond})
	i, err := c.Acquire(within(t), widget)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		receive(t, asked)
	}
	if err := i.WaitForSync(within(t)); err == nil || !strings.Contains(err.Error(), "follow example.dev/v1 Widget: ") {
		t.Errorf("while the server is silent: %v", err)
	}
	p.set(true, nil)
	eventually(t, func() (any, error) { return nil, i.WaitForSync(within(t)) })
}

// TestMissingRightIsToldWithItsRule: also where the kind may be listed, it is
// not followed without a watch.
func TestMissingRightIsToldWithItsRule(t *testing.T) {
	const rule = `the rule {apiGroups: ["example.dev"], resources: ["widgets"], verbs: ["list", "watch"]}`
	const refusal = `{"apiVersion":"v1","kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":` +
		`"widgets is forbidden: User \"u\" cannot watch resource \"widgets\" in API group \"example.dev\" at the cluster scope"}`
	p := newPeer(t)
	p.put("a", "x")
	logs := &lines{}
	p.set(true, func(r *http.Request) http.HandlerFunc {
		if r.URL.Query().Get("watch") == "" {
			return nil
		}
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintln(w, refusal)
		}
	})
	c := open(t, p, Config{Logger: logs.logger()})
	i, err := c.Acquire(within(t), widget)
	if err != nil {
		t.Fatal(err)
	}
	for i.ResourceVersion() == "" { // it has listed
		p.next(func(url.Values) bool { return true })
	}
	if err := i.WaitForSync(within(t)); err == nil || !strings.Contains(err.Error(), rule) || !apierrors.IsForbidden(err) {
		t.Errorf("without a watch: %v", err)
	}
	p.set(true, nil)
	eventually(t, func() (any, error) { return nil, i.WaitForSync(within(t)) })
	if bad, good := logs.count("cannot follow"), logs.count("following the kind again"); bad != 1 || good != 1 {
		t.Errorf("told %d and %d times:\n%s", bad, good, logs)
	}
}

func TestServerAwayIsToldOnce(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	logs := &lines{}
	i := follow(t, open(t, p, Config{Logger: logs.logger()}))
	r := record(t, i)
	r.expect("initial a/x")
	p.set(true, func(*http.Request) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			writeStatus(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		}
	})
	p.cutWatches()
	for range 6 {
		p.next(func(url.Values) bool { return true })
	}
	if i.Err() == nil {
		t.Error("no error told")
	}
	p.set(true, nil)
	p.put("a", "y")
	r.expect("add a/y")
	if i.Err() != nil {
		t.Error(i.Err())
	}
	if bad, good := logs.count("cannot follow"), logs.count("following the kind again"); bad != 1 || good != 1 {
		t.Errorf("told %d and %d times:\n%s", bad, good, logs)
	}
}

func TestRemovedKindHasNoObjects(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	logs := &lines{}
	c := open(t, p, Config{Logger: logs.logger()})
	i := follow(t, c)
	r := record(t, i)
	r.expect("initial a/x")
	p.set(false, nil)
	p.cutWatches()
	r.expect("delete a/x")
	if _, err := c.Acquire(within(t), widget); err != nil {
		t.Errorf("the informer goes on: %v", err)
	}
	var unknown *UnknownKindError
	if _, err := c.Resource(within(t), widget); !errors.As(err, &unknown) || unknown.Kind != widget {
		t.Errorf("resource: %v", err)
	}
	p.set(true, nil)
	r.expect("add a/x")
	if bad, good := logs.count("KindNotServed"), logs.count("following the kind again"); bad != 2 || good != 1 {
		t.Errorf("told %d and %d times:\n%s", bad, good, logs)
	}
}

// The time of a list does not run while the kind is looked for: one that comes
// back late is read at once, not after the reflector's backoff.
func TestAListWaitsForItsKind(t *testing.T) {
	p := newPeer(t)
	c := open(t, p, Config{StallAfter: time.Nanosecond})
	resource, err := c.Resource(within(t), widget)
	if err != nil {
		t.Fatal(err)
	}
	client, err := c.client(widget)
	if err != nil {
		t.Fatal(err)
	}
	lw, found := c.newInformer(resource, client).lw, false
	lw.found = func(object.Resource) { found = true }
	c.discovery.invalidate(widget.APIVersion)
	if _, err := lw.ListWithContext(within(t), metav1.ListOptions{}); !errors.Is(err, context.DeadlineExceeded) || !found {
		t.Errorf("found: %t, %v", found, err)
	}
}

func TestResource(t *testing.T) {
	p := newPeer(t)
	c := open(t, p, Config{})
	got, err := c.Resource(within(t), widget)
	if err != nil {
		t.Fatal(err)
	}
	if got.GVR.Resource != "widgets" || !got.Namespaced || !got.Status || got.Kind != widget {
		t.Errorf("got %+v", got)
	}
	review := abi.Kind{APIVersion: "example.dev/v1", Kind: "Review"}
	if got, err = c.Resource(within(t), review); err != nil || got.Namespaced || got.Status {
		t.Errorf("got %+v, %v", got, err)
	}
	var notWatchable *NotWatchableError
	if _, err = c.Acquire(within(t), review); !errors.As(err, &notWatchable) || notWatchable.Missing != "list" {
		t.Errorf("acquire: %v", err)
	}
	var unknown *UnknownKindError
	if _, err = c.Acquire(within(t), abi.Kind{APIVersion: "example.dev/v1", Kind: "Gadget"}); !errors.As(err, &unknown) {
		t.Errorf("acquire: %v", err)
	}
	if _, err = c.Acquire(within(t), abi.Kind{APIVersion: "other.dev/v1", Kind: "Gadget"}); err == nil {
		t.Error("acquired a kind of an unknown group")
	}
}

func TestKindThatComesLater(t *testing.T) {
	p := newPeer(t)
	p.set(false, nil)
	fake := clocktest.NewFakeClock(time.Now())
	c := open(t, p, Config{Clock: fake})
	var unknown *UnknownKindError
	if _, err := c.Acquire(within(t), widget); !errors.As(err, &unknown) {
		t.Fatalf("acquire: %v", err)
	}
	p.set(true, nil)
	fake.Step(unknownTTL)
	follow(t, c)
}

func TestKnownKindStaysKnownWhileNobodyAnswers(t *testing.T) {
	p := newPeer(t)
	fake := clocktest.NewFakeClock(time.Now())
	c := open(t, p, Config{Clock: fake})
	if _, err := c.Resource(within(t), widget); err != nil {
		t.Fatal(err)
	}
	p.Close()
	fake.Step(discoveryTTL)
	if _, err := c.Resource(within(t), widget); err != nil {
		t.Error(err)
	}
	var unknown *UnknownKindError
	_, err := c.Resource(within(t), abi.Kind{APIVersion: "other.dev/v1", Kind: "Gadget"})
	if err == nil || errors.As(err, &unknown) {
		t.Errorf("who could not ask does not know: %v", err)
	}
}

func TestUnusedInformerStops(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	fake := clocktest.NewFakeClock(time.Now())
	c := open(t, p, Config{Clock: fake, StallAfter: time.Hour})
	first := follow(t, c)
	second := follow(t, c)
	first.Release()
	first.Release()
	fake.Step(11 * time.Minute)
	if s := c.Stats(); len(s) != 1 || s[0].Users != 1 || s[0].Objects != 1 || s[0].Bytes == 0 || !s[0].Synced {
		t.Fatalf("stats: %+v", s)
	}
	second.Release()
	fake.Step(9 * time.Minute)
	third := follow(t, c)
	fake.Step(9 * time.Minute)
	if len(p.received()) != 1 {
		t.Error("the informer was not reused")
	}
	third.Release()
	fake.Step(10*time.Minute + 1)
	if err := third.WaitReached(within(t), "999"); !errors.Is(err, ErrStopped) {
		t.Errorf("wait: %v", err)
	}
	c.stopping.Wait()
	if s := c.Stats(); len(s) != 0 {
		t.Errorf("stats: %+v", s)
	}
	if o, ok := third.Get(object.Key{Namespace: "a", Name: "x"}); ok {
		t.Errorf("kept %v", o)
	}
	follow(t, c)
	if len(p.received()) != 2 {
		t.Error("no new watch")
	}
}

func TestStoppedCache(t *testing.T) {
	p := newPeer(t)
	c := open(t, p, Config{})
	i := follow(t, c)
	c.Stop()
	c.Stop()
	i.Release()
	if _, err := c.Acquire(within(t), widget); !errors.Is(err, ErrStopped) {
		t.Errorf("acquire: %v", err)
	}
}

func TestNamespaceRestrictsInformers(t *testing.T) {
	p := newPeer(t)
	follow(t, open(t, p, Config{Namespace: "a"}))
	if got := p.requests[0].URL.Path; got != "/apis/example.dev/v1/namespaces/a/widgets" {
		t.Errorf("path: %s", got)
	}
}

func TestWaitReached(t *testing.T) {
	p := newPeer(t)
	i := follow(t, open(t, p, Config{}))
	version := p.put("a", "x")
	if err := i.WaitReached(within(t), version); err != nil {
		t.Fatal(err)
	}
	if _, ok := i.Get(object.Key{Namespace: "a", Name: "x"}); !ok {
		t.Error("reached without the object")
	}
	if !i.Reached(version) || !i.Reached("") || !i.Reached("99") || i.Reached("1000") || i.Reached("abc") {
		t.Errorf("reached is wrong at %s", i.ResourceVersion())
	}
	if err := i.WaitReached(within(t), "abc"); !errors.Is(err, ErrIncomparable) {
		t.Errorf("incomparable: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- i.WaitReached(within(t), "103") }()
	p.put("a", "y")
	p.bookmark()
	if err := receive(t, waited); err != nil {
		t.Error(err)
	}
}

func TestLive(t *testing.T) {
	p := newPeer(t)
	i := follow(t, open(t, p, Config{}))
	p.silence(true)
	p.put("a", "x")
	o, err := i.Live(within(t), object.Key{Namespace: "a", Name: "x"})
	if err != nil || o.Name != "x" || o.Kind != widget {
		t.Errorf("got %v, %v", o, err)
	}
	if _, err = i.Live(within(t), object.Key{Namespace: "a", Name: "y"}); !notFound(err) {
		t.Errorf("got %v", err)
	}
	before := len(p.received())
	for _, name := range []string{"..", "a/b", "a%2fb"} {
		if _, err = i.Live(within(t), object.Key{Namespace: "a", Name: name}); err == nil {
			t.Errorf("%q was asked for", name)
		}
	}
	if len(p.received()) != before {
		t.Error("a bad name went out")
	}
}
