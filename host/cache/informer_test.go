package cache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clocktest "k8s.io/utils/clock/testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/logtest"
	"github.com/thole-dev/thole/host/object"
)

func TestInitialListIsAWatchList(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	acquire(t, open(t, p, Config{}))
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

func TestInitialListFallsBackToAList(t *testing.T) {
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
	logs := logtest.New(hclog.Info)
	i := acquire(t, open(t, p, Config{Logger: logs.Logger}))
	o, ok := i.Get(object.Key{Namespace: "a", Name: "x"})
	if !ok || o.Kind != widget || o.UID != "uid-x" {
		t.Fatalf("got %v %v", o, ok)
	}
	r := record(t, i)
	p.put("a", "y")
	r.expect("initial a/x", "add a/y")
	logs.ExpectNone(t)
}

func TestEventsArriveInTheOrderOfTheChanges(t *testing.T) {
	p := newPeer(t)
	p.put("b", "x")
	p.put("a", "y")
	i := acquire(t, open(t, p, Config{}))
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

func TestHandlerMayCallTheCache(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	c := open(t, p, Config{})
	i := acquire(t, c)
	second := make(chan string, 10)
	i.follow(func(e Event) {
		if len(i.List("", nil)) == 0 || !i.HasSynced() {
			t.Error("the store is behind the event")
		}
		another, err := c.Acquire(t.Context(), scope.All(widget))
		if err != nil {
			t.Error(err)
			return
		}
		another.follow(func(e Event) { second <- describe(e) })
		another.Release()
		c.Stats()
	})
	if got := receive(t, second); got != "initial a/x" {
		t.Errorf("got %s", got)
	}
}

func TestRemovedHandlerReceivesNothing(t *testing.T) {
	p := newPeer(t)
	i := acquire(t, open(t, p, Config{}))
	var first recorder
	first.events = make(chan string, 10)
	remove := i.follow(first.handle)
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

func TestExpiredWatchListsAgain(t *testing.T) {
	p := newPeer(t)
	p.put("a", "gone")
	p.put("a", "changed")
	p.put("a", "same")
	logs := logtest.New(hclog.Info)
	i := acquire(t, open(t, p, Config{Logger: logs.Logger}))
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
	r.expectNone()
	logs.ExpectNone(t)
}

func TestDroppedConnectionLosesNoEvent(t *testing.T) {
	p := newPeer(t)
	version := p.put("a", "x")
	i := acquire(t, open(t, p, Config{}))
	r := record(t, i)
	r.expect("initial a/x")
	p.put("a", "y") // a watch that ends without an event counts as failed
	r.expect("add a/y")
	p.silence(true)
	p.cutWatches()
	p.next(isRewatch)
	p.silence(false)
	p.put("a", "z")
	r.expect("add a/z")
	if !reached(i, version) {
		t.Error("the informer went back to an older resourceVersion")
	}
}

func TestTruncatedEventIsReadAgain(t *testing.T) {
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
	i := acquire(t, open(t, p, Config{}))
	if got := names(i.List("", nil)); got != "a/x" {
		t.Errorf("list: %s", got)
	}
}

func TestStalledWatchListsAgain(t *testing.T) {
	p := newPeer(t)
	fake := clocktest.NewFakeClock(time.Now())
	logs := logtest.New(hclog.Warn)
	i := acquire(t, open(t, p, Config{Clock: fake, Logger: logs.Logger}))
	p.next(isWatchList)
	r := record(t, i)
	resetIdleTimer(t, p, i)
	p.silence(true)
	p.put("a", "x")
	fake.Step(89 * time.Second)
	r.expectNone()
	// The timer may be reset for the last bookmark only now.
	p.nextAfter(isWatchList, func() { fake.Step(2 * time.Second) })
	r.expect("add a/x")
	if line := logs.Next(t); line.Level != hclog.Warn || !strings.Contains(line.Message, "shown nothing") {
		t.Errorf("logged %s", line)
	}
	logs.ExpectNone(t)
}

// resetIdleTimer makes sure that the idle timer of a watch has been reset at the
// present time of the clock. It is reset after an event was forwarded, but before
// the next one is.
func resetIdleTimer(t *testing.T, p *peer, i *Informer) {
	t.Helper()
	for range 2 {
		if err := waitReached(within(t), i, p.bookmark()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBookmarkResetsTheIdleTimer(t *testing.T) {
	p := newPeer(t)
	fake := clocktest.NewFakeClock(time.Now())
	i := acquire(t, open(t, p, Config{Clock: fake}))
	for range 3 {
		resetIdleTimer(t, p, i)
		fake.Step(80 * time.Second)
	}
	resetIdleTimer(t, p, i)
	if n := len(p.received()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestRequestWithoutAResponseIsRepeated(t *testing.T) {
	p := newPeer(t)
	requested := make(chan struct{}, 100)
	p.set(true, func(r *http.Request) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			requested <- struct{}{}
			<-r.Context().Done()
		}
	})
	// Long enough for a server that responds on a busy machine.
	c := open(t, p, Config{StallAfter: 500 * time.Millisecond})
	i, err := c.Acquire(within(t), scope.All(widget))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		receive(t, requested)
	}
	if err := i.WaitForSync(within(t)); err == nil || !strings.Contains(err.Error(), "watch example.dev/v1 Widget: ") {
		t.Errorf("WaitForSync returned %v while the server does not respond", err)
	}
	p.set(true, nil)
	eventually(t, func() (any, error) { return nil, i.WaitForSync(within(t)) })
}

// TestMissingRightIsLoggedWithItsRule covers a user that may list a kind and not
// watch it.
func TestMissingRightIsLoggedWithItsRule(t *testing.T) {
	const rule = `the rule {apiGroups: ['example.dev'], resources: ['widgets'], verbs: ['list', 'watch']}`
	const refusal = `{"apiVersion":"v1","kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":` +
		`"widgets is forbidden: User \"u\" cannot watch resource \"widgets\" in API group \"example.dev\" at the cluster scope"}`
	p := newPeer(t)
	p.put("a", "x")
	logs := logtest.New(hclog.Info)
	p.set(true, func(r *http.Request) http.HandlerFunc {
		if r.URL.Query().Get("watch") == "" {
			return nil
		}
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintln(w, refusal)
		}
	})
	c := open(t, p, Config{Logger: logs.Logger})
	i, err := c.Acquire(within(t), scope.All(widget))
	if err != nil {
		t.Fatal(err)
	}
	for versionOf(i) == "" { // until it has listed
		p.next(func(url.Values) bool { return true })
	}
	if err := i.WaitForSync(within(t)); err == nil || !strings.Contains(err.Error(), rule) || !apierrors.IsForbidden(err) {
		t.Errorf("WaitForSync returned %v without the right to watch", err)
	}
	logs.ExpectNext(t, hclog.Warn, "error", i.Err())
	p.set(true, nil)
	eventually(t, func() (any, error) { return nil, i.WaitForSync(within(t)) })
	logs.ExpectNext(t, hclog.Info, "after", "Forbidden")
	logs.ExpectNone(t)
}

func TestUnavailableServerIsLoggedOnce(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	logs := logtest.New(hclog.Info)
	i := acquire(t, open(t, p, Config{Logger: logs.Logger}))
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
		t.Error("Err is nil while requests fail")
	}
	p.set(true, nil)
	p.put("a", "y")
	r.expect("add a/y")
	if i.Err() != nil {
		t.Error(i.Err())
	}
	logs.ExpectNext(t, hclog.Warn, "reason", "ServiceUnavailable")
	logs.ExpectNext(t, hclog.Info, "after", "ServiceUnavailable")
	logs.ExpectNone(t)
}

// Refusals for want of a right while the API server starts are part of its outage.
func TestEndOfAnOutageIsReported(t *testing.T) {
	answer := func(code int, reason metav1.StatusReason) func(*http.Request) http.HandlerFunc {
		return func(*http.Request) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, code, reason) }
		}
	}
	unavailable := answer(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	forbidden := answer(http.StatusForbidden, metav1.StatusReasonForbidden)
	for name, c := range map[string]struct {
		faults []func(*http.Request) http.HandlerFunc
		want   int32
	}{
		"an outage":                     {[]func(*http.Request) http.HandlerFunc{unavailable}, 1},
		"an outage with missing rights": {[]func(*http.Request) http.HandlerFunc{unavailable, forbidden}, 1},
		"missing rights":                {[]func(*http.Request) http.HandlerFunc{forbidden}, 0},
		"a cut connection":              {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			var ended atomic.Int32
			i := acquire(t, open(t, p, Config{}, Hooks{OutageEnded: func() { ended.Add(1) }}))
			r := record(t, i)
			for range 2 {
				for n, fault := range c.faults {
					p.set(true, fault)
					p.arrivedOne(func(url.Values) bool { return false }) // forget earlier requests
					if n == 0 {
						p.cutWatches()
					}
					for range 6 {
						p.next(func(url.Values) bool { return true })
					}
				}
				p.set(true, nil)
				p.cutWatches()
				p.put("a", "x")
				r.expect("add a/x")
				p.remove("a", "x")
				r.expect("delete a/x")
			}
			if n := ended.Load(); n != 2*c.want {
				t.Errorf("the end was reported %d times, want %d", n, 2*c.want)
			}
		})
	}
}

func TestRemovedKindHasNoObjects(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	logs := logtest.New(hclog.Info)
	c := open(t, p, Config{Logger: logs.Logger})
	i := acquire(t, c)
	r := record(t, i)
	r.expect("initial a/x")
	p.set(false, nil)
	p.cutWatches()
	r.expect("lose a/x")
	if _, err := c.Acquire(within(t), scope.All(widget)); err != nil {
		t.Errorf("Acquire of the running informer: %v", err)
	}
	var unknown *object.UnknownKindError
	if _, err := c.Resource(within(t), widget); !errors.As(err, &unknown) || unknown.Kind != widget {
		t.Errorf("resource: %v", err)
	}
	p.set(true, nil)
	r.expect("add a/x")
	logs.ExpectNext(t, hclog.Warn, "reason", "NotFound") // of the watch; then the kind is looked up
	logs.ExpectNext(t, hclog.Warn, "reason", "KindNotServed")
	logs.ExpectNext(t, hclog.Info, "after", "KindNotServed")
	logs.ExpectNone(t)
}

// TestTimeoutOfAListBeginsAfterTheLookup covers a kind that is served late: it is
// listed at once then, not after the backoff of the reflector.
func TestTimeoutOfAListBeginsAfterTheLookup(t *testing.T) {
	p := newPeer(t)
	c := open(t, p, Config{StallAfter: time.Nanosecond})
	resource, err := c.Resource(within(t), widget)
	if err != nil {
		t.Fatal(err)
	}
	i, err := c.newInformer(resource, scope.All(widget))
	if err != nil {
		t.Fatal(err)
	}
	i.resource.Store(&object.Resource{Kind: widget})
	c.discovery.invalidate(widget.APIVersion)
	if _, err := (listWatch{i}).ListWithContext(within(t), metav1.ListOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if found := *i.resource.Load(); found != resource {
		t.Errorf("found %+v", found)
	}
}

func TestResourceReturnsScopeAndSubresources(t *testing.T) {
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
	var notListable *NotListableError
	if _, err = c.Acquire(within(t), scope.All(review)); !errors.As(err, &notListable) {
		t.Errorf("acquire: %v", err)
	}
	var unknown *object.UnknownKindError
	if _, err = c.Acquire(within(t), scope.All(abi.Kind{APIVersion: "example.dev/v1", Kind: "Gadget"})); !errors.As(err, &unknown) {
		t.Errorf("acquire: %v", err)
	}
	if _, err = c.Acquire(within(t), scope.All(abi.Kind{APIVersion: "other.dev/v1", Kind: "Gadget"})); err == nil {
		t.Error("acquired a kind of an unknown group")
	}
}

func TestKindThatIsServedLaterIsFound(t *testing.T) {
	p := newPeer(t)
	p.set(false, nil)
	fake := clocktest.NewFakeClock(time.Now())
	c := open(t, p, Config{Clock: fake})
	var unknown *object.UnknownKindError
	if _, err := c.Acquire(within(t), scope.All(widget)); !errors.As(err, &unknown) {
		t.Fatalf("acquire: %v", err)
	}
	p.set(true, nil)
	fake.Step(unknownTTL)
	acquire(t, c)
}

func TestResourceIsCachedWhileTheServerDoesNotRespond(t *testing.T) {
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
	var unknown *object.UnknownKindError
	_, err := c.Resource(within(t), abi.Kind{APIVersion: "other.dev/v1", Kind: "Gadget"})
	if err == nil || errors.As(err, &unknown) {
		t.Errorf("an unknown kind without a response: %v", err)
	}
}

func TestInformerWithoutUsersStops(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	fake := clocktest.NewFakeClock(time.Now())
	c := open(t, p, Config{Clock: fake, StallAfter: time.Hour})
	first := acquire(t, c)
	second := acquire(t, c)
	first.Release()
	first.Release()
	fake.Step(11 * time.Minute)
	if s := c.Stats(); len(s) != 1 || s[0].Kind != widget || s[0].Objects != 1 || s[0].Bytes == 0 || usersOf(c) != 1 {
		t.Fatalf("stats: %+v, %d users", s, usersOf(c))
	}
	second.Release()
	fake.Step(9 * time.Minute)
	third := acquire(t, c)
	fake.Step(9 * time.Minute)
	if len(p.received()) != 1 {
		t.Error("the informer was not reused")
	}
	third.Release()
	fake.Step(10*time.Minute + 1)
	receive(t, third.parts[0].ctx.Done())
	c.stopping.Wait()
	if s := c.Stats(); len(s) != 0 {
		t.Errorf("stats: %+v", s)
	}
	if o, ok := third.Get(object.Key{Namespace: "a", Name: "x"}); ok {
		t.Errorf("kept %v", o)
	}
	acquire(t, c)
	if len(p.received()) != 2 {
		t.Error("no new watch")
	}
}

func TestStoppedCacheRefusesAcquire(t *testing.T) {
	p := newPeer(t)
	c := open(t, p, Config{})
	i := acquire(t, c)
	c.Stop()
	c.Stop()
	i.Release()
	if _, err := c.Acquire(within(t), scope.All(widget)); !errors.Is(err, ErrStopped) {
		t.Errorf("acquire: %v", err)
	}
}

func TestNamespaceRestrictsInformers(t *testing.T) {
	p := newPeer(t)
	acquire(t, open(t, p, Config{Namespace: "a"}))
	if got := p.requests[0].URL.Path; got != "/apis/example.dev/v1/namespaces/a/widgets" {
		t.Errorf("path: %s", got)
	}
}

func TestAnInformerHasReachedWhatItShows(t *testing.T) {
	p := newPeer(t)
	i := acquire(t, open(t, p, Config{}))
	version := p.put("a", "x")
	if err := waitReached(within(t), i, version); err != nil {
		t.Fatal(err)
	}
	if _, ok := i.Get(object.Key{Namespace: "a", Name: "x"}); !ok {
		t.Error("reached without the object")
	}
	if !reached(i, version) || !reached(i, "") || !reached(i, "99") || reached(i, "1000") || reached(i, "abc") {
		t.Errorf("reached is wrong at %s", versionOf(i))
	}
	if _, err := i.parts[0].store.reached("abc"); !errors.Is(err, ErrIncomparable) {
		t.Errorf("incomparable: %v", err)
	}
}

func TestLiveReadsFromTheServer(t *testing.T) {
	p := newPeer(t)
	i := acquire(t, open(t, p, Config{}))
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
			t.Errorf("Live accepted the name %q", name)
		}
	}
	if len(p.received()) != before {
		t.Error("a request was sent for an invalid name")
	}
}

func TestMemoryIsThatOfAllInformersAndEdges(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	c, _ := edgeCache(t, p) // with an edge of the marker
	i := acquire(t, c)
	if m := c.Memory(); m.Objects <= uint64(i.parts[0].store.objects.Bytes()) || m.Edges == 0 || m.Indexes != 0 {
		t.Errorf("%+v", m)
	}
}

// Each namespace of a wider informer is a part of the narrower one.
func TestNarrowShowsEachObjectOnce(t *testing.T) {
	p := newPeer(t)
	for _, ns := range []string{"a", "b", "c"} {
		p.put(ns, "w")
	}
	c := open(t, p, Config{})
	acquire(t, c) // of all namespaces
	all, err := c.Acquire(within(t), scope.Scope{Kind: widget, Namespaces: []string{"a", "b", "c"}})
	if err != nil {
		t.Fatal(err)
	}
	two := scope.Scope{Kind: widget, Namespaces: []string{"a", "c"}}
	narrow := all.Narrow(two)
	keys := []object.Key{{Namespace: "a", Name: "w"}, {Namespace: "c", Name: "w"}}
	if got := narrow.Keys(func(object.Key) bool { return true }); !slices.Equal(got, keys) {
		t.Errorf("the keys are %v", got)
	}
	if got := narrow.List("", nil); len(got) != 2 {
		t.Errorf("lists %d objects", len(got))
	}
	events := record(t, narrow)
	events.expect("initial a/w", "initial c/w")
	p.put("b", "w", `"labels":{"x":"y"}`)
	p.put("c", "w", `"labels":{"x":"y"}`)
	events.expect("update c/w")
	events.expectNone()
	if narrow.Has("b") || !narrow.Has("c") {
		t.Error("it has other namespaces than those of the scope")
	}
}
