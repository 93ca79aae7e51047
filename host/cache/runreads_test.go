package cache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/host/object"
)

var me = Owner{Controller: "plugin/widgets", Key: object.Key{Namespace: "a", Name: "me"}}

// wakeups records the calls of Config.Wake, each with its cause: the object whose
// event the informer is delivering, or "sync".
type wakeups struct {
	t     testing.TB
	calls chan string
	cause string // only used by the goroutine that delivers events
}

func (s *wakeups) wake(o Owner, _ Event) { s.calls <- o.Key.Name + " by " + s.cause }

// follow makes the causes those of an informer. It must be called before the first
// read of the kind, because each event comes to the handlers in their order.
func (s *wakeups) follow(i *Informer) {
	i.subscribe(&handler{
		event:  func(e Event) { s.cause = e.Object().Key().String() },
		synced: func() { s.cause = "sync" },
	})
}

// edgesOf returns the number of edges to widgets.
func edgesOf(c *Cache) (n int) {
	c.edges.mu.Lock()
	defer c.edges.mu.Unlock()
	k := c.edges.kinds[widget]
	for _, set := range k.objects {
		n += len(set.few) + len(set.many)
	}
	for _, l := range k.lists {
		n += len(l.readers.few) + len(l.readers.many)
	}
	return n
}

// usersOf returns the number of users of the informer of widgets.
func usersOf(c *Cache) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.informers[widget].users
}

// expect waits for exactly these calls, in any order. A change of the object that
// the owner "marker" reads marks their end.
func (s *wakeups) expect(p *peer, want ...string) {
	s.t.Helper()
	p.put("mark", "mark")
	var got []string
	ctx := within(s.t)
	for {
		select {
		case w := <-s.calls:
			if w == "marker by mark/mark" {
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					s.t.Errorf("Wake was called for %q, want %q", got, want)
				}
				return
			}
			if !strings.HasSuffix(w, " by mark/mark") { // of owners that read everything
				got = append(got, w)
			}
		case <-ctx.Done():
			s.t.Fatal("Wake was not called for the marker")
		}
	}
}

// edgeCache returns a synced cache, and the calls of its Wake.
func edgeCache(t *testing.T, p *peer) (*Cache, *wakeups) {
	t.Helper()
	s := &wakeups{t: t, calls: make(chan string, 10_000)}
	c := open(t, p, Config{Wake: s.wake})
	s.follow(acquire(t, c))
	marker := c.Begin(Owner{Key: object.Key{Name: "marker"}}, &OwnWrites{})
	if _, _, err := marker.Get(within(t), widget, object.Key{Namespace: "mark", Name: "mark"}); err != nil {
		t.Fatal(err)
	}
	marker.Commit()
	return c, s
}

func selector(t testing.TB, text string) labels.Selector {
	t.Helper()
	sel, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return sel
}

func TestChangeOfAListWakesItsReaders(t *testing.T) {
	tests := []struct {
		namespace, selector string
		change              func(*peer)
		wakes               bool
	}{
		{"a", "", func(p *peer) { p.put("a", "new") }, true},
		{"a", "", func(p *peer) { p.put("b", "new") }, false},
		{"", "", func(p *peer) { p.put("b", "new") }, true},
		{"a", "", func(p *peer) { p.remove("a", "x") }, true},
		{"a", "app=web", func(p *peer) { p.put("a", "new", `"labels":{"app":"web"}`) }, true},
		{"a", "app=web", func(p *peer) { p.put("a", "new", `"labels":{"app":"db"}`) }, false},
		{"a", "app=web", func(p *peer) { p.put("b", "new", `"labels":{"app":"web"}`) }, false},
		{"", "app=web", func(p *peer) { p.put("b", "new", `"labels":{"app":"web"}`) }, true},
		{"a", "app=web", func(p *peer) { p.put("a", "x", `"labels":{"app":"db"}`) }, true}, // leaves
		{"a", "app=web", func(p *peer) { p.put("a", "x") }, true},                          // leaves
		{"a", "app=web", func(p *peer) { p.put("a", "x", `"labels":{"app":"web"}`, `"generation":2`) }, true},
		{"a", "app=web", func(p *peer) { p.remove("a", "x") }, true},
		{"a", "app=db", func(p *peer) { p.put("a", "x", `"labels":{"app":"db"}`) }, true}, // enters
		{"a", "app=db", func(p *peer) { p.remove("a", "x") }, false},
		{"a", "app=web,tier=1", func(p *peer) { p.put("a", "new", `"labels":{"app":"web"}`) }, false},
		{"a", "app=web,tier=1", func(p *peer) { p.put("a", "new", `"labels":{"app":"web","tier":"1"}`) }, true},
		{"a", "app=web,!tier", func(p *peer) { p.put("a", "new", `"labels":{"app":"web","tier":"1"}`) }, false},
		{"a", "app in (web)", func(p *peer) { p.put("a", "new", `"labels":{"app":"web"}`) }, true},
		{"a", "app in (web,db)", func(p *peer) { p.put("a", "new", `"labels":{"app":"db"}`) }, true},
		{"a", "app in (web,db)", func(p *peer) { p.put("a", "new", `"labels":{"app":"x"}`) }, false},
		{"a", "app in (web,db)", func(p *peer) { p.put("b", "new", `"labels":{"app":"db"}`) }, false},
		{"a", "app", func(p *peer) { p.put("a", "x") }, true}, // leaves
		{"a", "!app", func(p *peer) { p.put("a", "new") }, true},
		{"a", "app!=web", func(p *peer) { p.put("a", "new") }, true},
		{"a", "app!=web", func(p *peer) { p.put("a", "x", `"labels":{"app":"web"}`, `"generation":2`) }, false},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprintf("%d %s %q", i, tt.namespace, tt.selector), func(t *testing.T) {
			p := newPeer(t)
			p.put("a", "x", `"labels":{"app":"web"}`)
			c, s := edgeCache(t, p)
			run := c.Begin(me, &OwnWrites{})
			if _, err := run.List(within(t), widget, tt.namespace, selector(t, tt.selector)); err != nil {
				t.Fatal(err)
			}
			run.Commit()
			tt.change(p)
			p.mu.Lock()
			last := p.log[len(p.log)-1].object
			p.mu.Unlock()
			o, err := object.Parse([]byte(last), widget)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"me by " + o.Key().String()}
			if !tt.wakes {
				want = nil
			}
			s.expect(p, want...)
		})
	}
}

func TestChangeOfAnObjectWakesItsReaders(t *testing.T) {
	p := newPeer(t)
	c, s := edgeCache(t, p)
	run := c.Begin(me, &OwnWrites{})
	key := object.Key{Namespace: "a", Name: "x"}
	if _, ok, err := run.Get(within(t), widget, key); ok || err != nil {
		t.Fatal(ok, err)
	}
	run.Commit()
	p.put("a", "x")
	s.expect(p, "me by a/x")
	p.put("b", "x")
	p.put("a", "y")
	s.expect(p)
	p.put("a", "x")
	s.expect(p, "me by a/x")
	p.remove("a", "x")
	s.expect(p, "me by a/x")
	p.put("a", "x")
	p.putUID("a", "x", "another")
	s.expect(p, "me by a/x", "me by a/x", "me by a/x") // created, deleted, created
}

func TestCommitReplacesTheEdgesOfEarlierRuns(t *testing.T) {
	p := newPeer(t)
	c, s := edgeCache(t, p)
	read := func(run *Run, name string) {
		t.Helper()
		if _, _, err := run.Get(within(t), widget, object.Key{Namespace: "a", Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	touch := func() { p.put("a", "1"); p.put("a", "2"); p.put("a", "3") }

	first := c.Begin(me, &OwnWrites{})
	read(first, "1")
	touch()
	s.expect(p, "me by a/1") // while the run is open
	first.Commit()

	second := c.Begin(me, &OwnWrites{})
	read(second, "2")
	touch()
	s.expect(p, "me by a/1", "me by a/2") // the edges of earlier runs stay until the end
	second.Abandon()
	touch()
	s.expect(p, "me by a/1", "me by a/2") // and after the end if the run was abandoned

	third := c.Begin(me, &OwnWrites{})
	read(third, "3")
	third.Commit()
	third.Abandon()
	touch()
	s.expect(p, "me by a/3")
	if third.views != nil || third.seen != nil {
		t.Error("a run that has ended keeps what it has read")
	}
	if _, _, err := third.Get(within(t), widget, object.Key{}); !errors.Is(err, errEnded) {
		t.Errorf("a read after the end returned %v", err)
	}

	c.Begin(me, &OwnWrites{}).Commit()
	touch()
	s.expect(p)
	if n := edgesOf(c); n != 1 { // the marker's
		t.Errorf("%d edges", n)
	}
}

func TestForgetRemovesEdgesAlsoOfOpenRuns(t *testing.T) {
	p := newPeer(t)
	c, s := edgeCache(t, p)
	read := func(run *Run) {
		t.Helper()
		if _, err := run.List(within(t), widget, "a", nil); err != nil {
			t.Fatal(err)
		}
	}
	committed, open := c.Begin(me, &OwnWrites{}), c.Begin(Owner{Controller: "other", Key: me.Key}, &OwnWrites{})
	read(committed)
	committed.Commit()
	read(open)
	c.ForgetController("other")
	if _, _, err := open.Get(within(t), widget, me.Key); err != nil {
		t.Fatal(err)
	}
	p.put("a", "x")
	s.expect(p, "me by a/x")
	c.Forget(me)
	c.Forget(me)
	open.Commit()
	p.put("a", "x")
	p.put("a", "me")
	s.expect(p)
	if n, m := edgesOf(c), len(c.edges.readers); n != 1 || m != 1 {
		t.Errorf("%d edges of %d owners are left", n, m)
	}
}

func TestObjectsDoNotChangeDuringARun(t *testing.T) {
	p := newPeer(t)
	old := p.put("a", "x", `"labels":{"app":"web"}`)
	c, _ := edgeCache(t, p)
	i := acquire(t, c)
	run := c.Begin(me, &OwnWrites{})
	defer run.Abandon()
	ctx := within(t)
	x := object.Key{Namespace: "a", Name: "x"}
	if o, _, err := run.Get(ctx, widget, x); err != nil || o.ResourceVersion != old {
		t.Fatal(o, err)
	}
	if _, ok, err := run.Get(ctx, widget, object.Key{Namespace: "a", Name: "absent"}); ok || err != nil {
		t.Fatal(ok, err)
	}
	p.put("a", "absent", `"labels":{"app":"web"}`)
	p.put("a", "fresh", `"labels":{"app":"web"}`)
	if err := waitReached(ctx, i, p.put("a", "x")); err != nil { // without the label
		t.Fatal(err)
	}
	list := func(sel string) string {
		t.Helper()
		items, err := run.List(ctx, widget, "a", selector(t, sel))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range items {
			if o.Name == "x" && o.ResourceVersion != old {
				t.Errorf("%s: x has changed", sel)
			}
		}
		return names(items)
	}
	for _, sel := range []string{"app=web", "", "app=web"} {
		if got := list(sel); got != "a/fresh a/x" {
			t.Errorf("%q: %s", sel, got)
		}
	}
	if err := waitReached(ctx, i, p.put("a", "later")); err != nil {
		t.Fatal(err)
	}
	if got := list(""); got != "a/fresh a/x" {
		t.Errorf("again: %s", got)
	}
	if _, ok, _ := run.Get(ctx, widget, object.Key{Namespace: "a", Name: "later"}); ok {
		t.Error("the run has an object that its list had not")
	}
	if got := list("!app"); got != "" {
		t.Errorf("the objects without the label are %s", got)
	}
	if _, ok, _ := c.Begin(Owner{}, &OwnWrites{}).Get(ctx, widget, object.Key{Namespace: "a", Name: "later"}); !ok {
		t.Error("another run does not have the new object")
	}
}

func TestReadBeforeSyncWakesAfterSync(t *testing.T) {
	p := newPeer(t)
	proceed := make(chan struct{})
	p.set(true, func(*http.Request) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			<-proceed
			p.watch(w, r, r.URL.Query())
		}
	})
	s := &wakeups{t: t, calls: make(chan string, 10)}
	c := open(t, p, Config{Wake: s.wake})
	i, err := c.Acquire(within(t), widget)
	if err != nil {
		t.Fatal(err)
	}
	s.follow(i)
	run := c.Begin(me, &OwnWrites{})
	if _, err := run.List(within(t), widget, "", nil); !errors.Is(err, ErrNotSynced) {
		t.Fatalf("got %v", err)
	}
	run.Abandon()
	p.put("a", "x") // part of the first list: Wake is not called for it
	close(proceed)
	if got := receive(t, s.calls); got != "me by sync" {
		t.Errorf("Wake was called for %s", got)
	}
	run = c.Begin(me, &OwnWrites{})
	if items, err := run.List(within(t), widget, "", nil); err != nil || names(items) != "a/x" {
		t.Errorf("got %s, %v", names(items), err)
	}
	run.Commit()
	p.put("a", "x")
	if got := receive(t, s.calls); got != "me by a/x" {
		t.Errorf("Wake was called for %s", got)
	}
}

// TestSyncWakesOnlyOwnersThatStillDependOnTheKind has two owners that read a kind
// before it has synced, of which one commits a run that does not.
func TestSyncWakesOnlyOwnersThatStillDependOnTheKind(t *testing.T) {
	p := newPeer(t)
	proceed := make(chan struct{})
	p.set(true, func(*http.Request) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			<-proceed
			p.watch(w, r, r.URL.Query())
		}
	})
	calls := make(chan Owner, 10)
	c := open(t, p, Config{Wake: func(o Owner, _ Event) { calls <- o }})
	other := Owner{Controller: me.Controller, Key: object.Key{Namespace: "a", Name: "other"}}
	for _, owner := range []Owner{other, me} {
		run := c.Begin(owner, &OwnWrites{})
		if _, err := run.List(within(t), widget, "", nil); !errors.Is(err, ErrNotSynced) {
			t.Fatalf("got %v", err)
		}
		run.Commit()
	}
	c.Begin(other, &OwnWrites{}).Commit()
	c.Forget(other)
	close(proceed)
	if owner := receive(t, calls); owner != me {
		t.Errorf("Wake was called for %v", owner)
	}
	i := acquire(t, c)
	if err := waitReached(within(t), i, p.put("a", "x")); err != nil {
		t.Fatal(err)
	}
	if owner := receive(t, calls); owner != me { // by x, after every call of the sync
		t.Errorf("Wake was called for %v", owner)
	}
}

func TestReadOfAnUnknownKindIsAnError(t *testing.T) {
	p := newPeer(t)
	p.set(false, nil)
	c := open(t, p, Config{})
	run := c.Begin(me, &OwnWrites{})
	defer run.Abandon()
	var unknown *object.UnknownKindError
	if _, _, err := run.Get(within(t), widget, me.Key); !errors.As(err, &unknown) {
		t.Errorf("got %v", err)
	}
}

func TestEdgesAreUsersOfTheInformer(t *testing.T) {
	p := newPeer(t)
	c, _ := edgeCache(t, p) // one user is acquire, one the edge of the marker
	if n := usersOf(c); n != 2 {
		t.Errorf("%d users", n)
	}
	run := c.Begin(me, &OwnWrites{})
	c.Forget(Owner{Key: object.Key{Name: "marker"}})
	if n := usersOf(c); n != 1 {
		t.Errorf("%d users", n)
	}
	c.Forget(me)
	if _, _, err := run.Get(within(t), widget, me.Key); err != nil { // does not become a user
		t.Fatal(err)
	}
	run.Commit()
	if n := usersOf(c); n != 1 {
		t.Errorf("%d users", n)
	}
}

func TestSelectorsBeyondTheLimitCountAsEverything(t *testing.T) {
	p := newPeer(t)
	c, s := edgeCache(t, p)
	for i := range maxSelectors + 1 {
		run := c.Begin(Owner{Key: object.Key{Name: fmt.Sprint(i)}}, &OwnWrites{})
		if _, err := run.List(within(t), widget, "a", selector(t, fmt.Sprintf("app!=%d", i))); err != nil {
			t.Fatal(err)
		}
		run.Commit()
	}
	p.put("a", "x", fmt.Sprintf(`"labels":{"app":"%d"}`, maxSelectors))
	var want []string
	for i := range maxSelectors + 1 { // the last one because it is beyond the limit
		want = append(want, fmt.Sprintf("%d by a/x", i))
	}
	s.expect(p, want...)
}

func TestEdgesBeyondTheLimitCountAsTheWholeKind(t *testing.T) {
	p := newPeer(t)
	c, s := edgeCache(t, p)
	run := c.Begin(me, &OwnWrites{})
	for i := range maxEdges + 500 {
		if _, _, err := run.Get(within(t), widget, object.Key{Namespace: "a", Name: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	run.Commit()
	if n := edgesOf(c); n != maxEdges+2 { // the whole kind, and that of the marker
		t.Errorf("%d edges", n)
	}
	p.put("a", "never read")
	s.expect(p, "me by a/never read")
}

func TestChangeOfAnObjectWakesManyReaders(t *testing.T) {
	p := newPeer(t)
	c, s := edgeCache(t, p)
	var want []string
	for i := range 3 * fewReaders {
		o := Owner{Key: object.Key{Name: fmt.Sprint(i)}}
		run := c.Begin(o, &OwnWrites{})
		if _, _, err := run.Get(within(t), widget, me.Key); err != nil {
			t.Fatal(err)
		}
		run.Commit()
		if i%2 == 1 {
			c.Forget(o)
			continue
		}
		want = append(want, fmt.Sprintf("%d by a/me", i))
	}
	p.put("a", "me")
	s.expect(p, want...)
}

func TestReadEndsWithItsContext(t *testing.T) {
	p := newPeer(t)
	c := open(t, p, Config{})
	p.mu.Lock() // discovery does not respond
	defer p.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	run := c.Begin(me, &OwnWrites{})
	defer run.Abandon()
	if _, _, err := run.Get(ctx, widget, me.Key); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestEdgesDoNotAliasTheMessage covers names and selectors that are parts of the
// message of a guest, which may be much longer.
func TestEdgesDoNotAliasTheMessage(t *testing.T) {
	p := newPeer(t)
	c, s := edgeCache(t, p)
	message := []byte("a me app=web")
	text := unsafe.String(&message[0], len(message))
	for name, read := range map[string]func(*Run) error{
		"one": func(run *Run) error {
			_, _, err := run.Get(within(t), widget, object.Key{Namespace: text[:1], Name: text[2:4]})
			return err
		},
		"all": func(run *Run) error {
			_, err := run.List(within(t), widget, text[:1], selector(t, text[5:]))
			return err
		},
	} {
		run := c.Begin(Owner{Key: object.Key{Name: name}}, &OwnWrites{})
		if err := read(run); err != nil {
			t.Fatal(err)
		}
		run.Commit()
	}
	clear(message)
	p.put("a", "me", `"labels":{"app":"web"}`)
	s.expect(p, "all by a/me", "one by a/me")
}

func TestBytesOfEdgesAreLimited(t *testing.T) {
	p := newPeer(t)
	c, s := edgeCache(t, p)
	long := strings.Repeat("x", 1000)
	const reads = 2 * maxEdgeBytes / 1000
	run := c.Begin(me, &OwnWrites{})
	for i := range reads {
		if _, _, err := run.Get(within(t), widget, object.Key{Namespace: "a", Name: long + fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	run.Commit()
	if n := edgesOf(c); n > reads*2/3 {
		t.Errorf("%d edges", n)
	}
	p.put("a", "never read")
	s.expect(p, "me by a/never read")

	run = c.Begin(me, &OwnWrites{})
	run.Commit()
	if r := c.edges.readers[me]; r != nil && r.bytes != 0 {
		t.Errorf("%d bytes are counted without edges", r.bytes)
	}
}

func TestSameEdgesOfALaterRunDoNotExceedTheLimit(t *testing.T) {
	p := newPeer(t)
	c, s := edgeCache(t, p)
	for range 2 {
		run := c.Begin(me, &OwnWrites{})
		for i := range maxEdges {
			if _, _, err := run.Get(within(t), widget, object.Key{Namespace: "a", Name: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		run.Commit()
	}
	p.put("a", "never read")
	p.put("a", "7")
	s.expect(p, "me by a/7")
}
