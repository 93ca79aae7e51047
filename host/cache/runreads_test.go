package cache

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/object"
)

var me = Owner{Controller: "plugin/widgets", Key: object.Key{Namespace: "a", Name: "me"}}

// wakeups records the calls of Hooks.Wake, each with its cause: the object that has
// changed, or "nothing".
type wakeups struct {
	t     testing.TB
	calls chan string
}

func (s *wakeups) wake(o Owner, e Event, _ bool) {
	cause := "nothing"
	if e.Old != nil || e.New != nil {
		cause = e.Object().Key().String()
	}
	s.calls <- o.Key.Name + " by " + cause
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
	c := open(t, p, Config{}, Hooks{Wake: s.wake})
	acquire(t, c)
	marker := begin(c, Owner{Key: object.Key{Name: "marker"}}, &OwnWrites{})
	if _, err := marker.Get(widget, object.Key{Namespace: "mark", Name: "mark"}, whole); err != nil {
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
			run := begin(c, me, &OwnWrites{})
			if _, err := run.List(Reading{Kind: widget, Namespaces: []string{tt.namespace}, Selector: selector(t, tt.selector)}); err != nil {
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
	run := begin(c, me, &OwnWrites{})
	key := object.Key{Namespace: "a", Name: "x"}
	if o, err := run.Get(widget, key, whole); o != nil || err != nil {
		t.Fatal(o, err)
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
		if _, err := run.Get(widget, object.Key{Namespace: "a", Name: name}, whole); err != nil {
			t.Fatal(err)
		}
	}
	touch := func() { p.put("a", "1"); p.put("a", "2"); p.put("a", "3") }

	first := begin(c, me, &OwnWrites{})
	read(first, "1")
	touch()
	s.expect(p, "me by a/1") // while the run is open
	first.Commit()

	second := begin(c, me, &OwnWrites{})
	read(second, "2")
	touch()
	s.expect(p, "me by a/1", "me by a/2") // the edges of earlier runs stay until the end
	second.Abandon()
	touch()
	s.expect(p, "me by a/1", "me by a/2") // and after the end if the run was abandoned

	third := begin(c, me, &OwnWrites{})
	read(third, "3")
	third.Commit()
	third.Abandon()
	touch()
	s.expect(p, "me by a/3")
	if third.shown != nil {
		t.Error("a run that has ended keeps what it has read")
	}
	if _, err := third.Get(widget, object.Key{}, whole); !errors.Is(err, errEnded) {
		t.Errorf("a read after the end returned %v", err)
	}

	begin(c, me, &OwnWrites{}).Commit()
	touch()
	s.expect(p)
}

func TestForgetRemovesEdgesAlsoOfOpenRuns(t *testing.T) {
	p := newPeer(t)
	c, s := edgeCache(t, p)
	read := func(run *Run) {
		t.Helper()
		if _, err := run.List(Reading{Kind: widget, Namespaces: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
	}
	committed, open := begin(c, me, &OwnWrites{}), begin(c, Owner{Controller: "other", Key: me.Key}, &OwnWrites{})
	read(committed)
	committed.Commit()
	read(open)
	c.ForgetController("other")
	if _, err := open.Get(widget, me.Key, whole); err != nil {
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
	c := open(t, p, Config{}, Hooks{Wake: s.wake})
	if _, err := c.Acquire(within(t), scope.All(widget)); err != nil {
		t.Fatal(err)
	}
	run := begin(c, me, &OwnWrites{})
	if _, err := run.List(Reading{Kind: widget}); !errors.Is(err, ErrNotSynced) {
		t.Fatalf("got %v", err)
	}
	run.Abandon()
	p.put("a", "x") // part of the first list: Wake is not called for it
	close(proceed)
	if got := receive(t, s.calls); got != "me by nothing" {
		t.Errorf("Wake was called for %s", got)
	}
	run = begin(c, me, &OwnWrites{})
	if found, err := run.List(Reading{Kind: widget}); err != nil || names(found.Items) != "a/x" {
		t.Errorf("got %s, %v", names(found.Items), err)
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
	c := open(t, p, Config{}, Hooks{Wake: func(o Owner, _ Event, _ bool) { calls <- o }})
	if _, err := c.Acquire(within(t), scope.All(widget)); err != nil {
		t.Fatal(err)
	}
	other := Owner{Controller: me.Controller, Key: object.Key{Namespace: "a", Name: "other"}}
	for _, owner := range []Owner{other, me} {
		run := begin(c, owner, &OwnWrites{})
		if _, err := run.List(Reading{Kind: widget}); !errors.Is(err, ErrNotSynced) {
			t.Fatalf("got %v", err)
		}
		run.Commit()
	}
	begin(c, other, &OwnWrites{}).Commit()
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

// TestEdgesDoNotAliasTheMessage covers names and selectors that are parts of the
// message of a guest, which may be much longer.
func TestEdgesDoNotAliasTheMessage(t *testing.T) {
	p := newPeer(t)
	c, s := edgeCache(t, p)
	message := []byte("a me app=web")
	text := unsafe.String(&message[0], len(message))
	for name, read := range map[string]func(*Run) error{
		"one": func(run *Run) error {
			_, err := run.Get(widget, object.Key{Namespace: text[:1], Name: text[2:4]}, whole)
			return err
		},
		"all": func(run *Run) error {
			_, err := run.List(widgets(text[:1], selector(t, text[5:])))
			return err
		},
	} {
		run := begin(c, Owner{Key: object.Key{Name: name}}, &OwnWrites{})
		if err := read(run); err != nil {
			t.Fatal(err)
		}
		run.Commit()
	}
	clear(message)
	p.put("a", "me", `"labels":{"app":"web"}`)
	s.expect(p, "all by a/me", "one by a/me")
}

// TestARunReadsOneState changes objects while a run reads. The run sees none of it,
// and is woken for what it would have seen.
func TestARunReadsOneState(t *testing.T) {
	p := newPeer(t)
	old := p.put("a", "x", `"labels":{"app":"web"}`)
	same := p.put("a", "same")
	c, s := edgeCache(t, p)
	i := acquire(t, c)
	run := begin(c, me, &OwnWrites{})
	get := func(name, version string) {
		t.Helper()
		o, err := run.Get(widget, object.Key{Namespace: "a", Name: name}, whole)
		if err != nil || (o == nil) != (version == "") || o != nil && o.ResourceVersion != version {
			t.Errorf("%s is %v, %v, want version %q", name, o, err, version)
		}
	}
	list := func(sel, want string) {
		t.Helper()
		found, err := run.List(widgets("a", selector(t, sel)))
		if err != nil || names(found.Items) != want {
			t.Errorf("%q: %s, %v, want %s", sel, names(found.Items), err, want)
		}
	}
	get("absent", "")
	p.put("a", "other", `"labels":{"app":"db"}`)
	changed := p.put("a", "x")
	if err := waitReached(within(t), i, changed); err != nil {
		t.Fatal(err)
	}
	s.expect(p)
	get("same", same)
	list("app=none", "")
	if len(s.calls) != 0 {
		t.Errorf("woken by a read of what has not changed: %v", <-s.calls)
	}
	get("x", old)
	list("app=web", "a/x")
	list("", "a/same a/x")
	get("other", "")
	for _, read := range []string{"x", "app=web", "everything", "other"} {
		if len(s.calls) == 0 {
			t.Fatalf("not woken by the read of %s", read)
		}
		<-s.calls
	}
	run.Commit()
	run = begin(c, me, &OwnWrites{})
	get("x", changed)
	list("", "a/other a/same a/x")
	run.Commit()
	if len(s.calls) != 0 {
		t.Errorf("woken without a change: %v", <-s.calls)
	}
}

// TestOwnWritesAreNoChangeDuringARun has an informer that shows a write while a run
// reads that has it already.
func TestOwnWritesAreNoChangeDuringARun(t *testing.T) {
	p := newPeer(t)
	c, s := edgeCache(t, p)
	i := acquire(t, c)
	p.silence(true)
	p.put("a", "x")
	o, err := object.Parse([]byte(p.objects["a/x"]), widget)
	if err != nil {
		t.Fatal(err)
	}
	var own OwnWrites
	own.Wrote(i, o)
	run := begin(c, me, &own)
	defer run.Commit()
	if o, err := run.Get(widget, object.Key{Namespace: "a", Name: "other"}, whole); o != nil || err != nil {
		t.Fatal(o, err)
	}
	if err := i.parts[0].store.Update(o); err != nil { // the event, which the peer does not send
		t.Fatal(err)
	}
	i.parts[0].store.UpdateResourceVersion(o.ResourceVersion)
	if found, err := run.List(widgets("a", nil)); err != nil || names(found.Items) != "a/x" {
		t.Errorf("%s, %v", names(found.Items), err)
	}
	for len(s.calls) > 0 {
		if w := <-s.calls; w == "me by nothing" {
			t.Error("woken by the read")
		}
	}
}

func TestAClosedRunKeepsItsEdgesAndNothingElse(t *testing.T) {
	p := newPeer(t)
	c, s := edgeCache(t, p)
	run := begin(c, me, &OwnWrites{})
	if _, err := run.Get(widget, object.Key{Namespace: "a", Name: "x"}, whole); err != nil {
		t.Fatal(err)
	}
	run.Close()
	if _, err := run.Get(widget, me.Key, whole); !errors.Is(err, errEnded) {
		t.Errorf("got %v", err)
	}
	p.put("a", "x")
	s.expect(p, "me by a/x")
	run.Commit()
	p.put("a", "x")
	s.expect(p, "me by a/x")
	if len(run.shown) != 0 {
		t.Error("something is kept")
	}
}

func TestAReadOfAKindThatIsNotFollowedIsAnError(t *testing.T) {
	p := newPeer(t)
	c := open(t, p, Config{})
	run := begin(c, me, &OwnWrites{})
	defer run.Abandon()
	if _, err := run.Get(widget, me.Key, whole); !errors.Is(err, ErrNotFollowed) {
		t.Errorf("got %v", err)
	}
}

func TestAListIsReadInPages(t *testing.T) {
	p := newPeer(t)
	for i := range 10 {
		p.put("a", fmt.Sprint("x", i), `"labels":{"app":"web"}`)
	}
	p.put("b", "x")
	c, _ := edgeCache(t, p)
	i := acquire(t, c)
	gone, _ := i.Get(object.Key{Namespace: "a", Name: "x4"})
	var own OwnWrites
	own.Deleted(i, gone.Key(), gone.UID, gone.ResourceVersion)
	run := begin(c, me, &own)
	defer run.Abandon()
	page := func(l Reading) (string, bool) {
		t.Helper()
		found, err := run.List(l)
		if err != nil {
			t.Fatal(err)
		}
		return names(found.Items), found.More
	}
	l := Reading{Kind: widget, Namespaces: []string{"a"}, Selector: selector(t, "app=web"), Limit: 4}
	for n, want := range []string{"a/x0 a/x1 a/x2 a/x3", "a/x5 a/x6 a/x7 a/x8", "a/x9"} {
		got, more := page(l)
		if got != want || more != (n < 2) {
			t.Errorf("page %d: %s, more: %v", n, got, more)
		}
		l.After = object.Key{Namespace: "a", Name: got[len(got)-2:]}
		if err := waitReached(within(t), i, p.put("a", fmt.Sprint("x7", n), `"labels":{"app":"web"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if got, more := page(Reading{Kind: widget, Namespaces: []string{"a"}, Limit: 9}); got == "" || more {
		t.Errorf("a list as long as its limit: %s, more: %v", got, more)
	}
	if _, err := run.List(Reading{Kind: widget, Namespaces: []string{"a"}, MaxBytes: 1000}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a list that is too large: %v", err)
	}
	found, err := run.List(Reading{Kind: widget, Namespaces: []string{"a"}, MaxBytes: 1000, Limit: 9})
	if n := len(found.Items); err != nil || n == 0 || n == 9 || !found.More || found.Bytes+n > 1000 {
		t.Errorf("a page of 1000 bytes: %d objects of %d bytes, %v", n, found.Bytes, err)
	}
}

// A page has room for its separators, or the reply with it would be refused.
func TestAPageHasRoomForItsSeparators(t *testing.T) {
	p := newPeer(t)
	for i := range 5 {
		p.put("a", fmt.Sprint("x", i))
	}
	c, _ := edgeCache(t, p)
	run := begin(c, me, &OwnWrites{})
	defer run.Abandon()
	page := func(l Reading) List {
		t.Helper()
		found, err := run.List(l)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	three := page(Reading{Kind: widget, Namespaces: []string{"a"}, Limit: 3})
	for room, want := range map[int]int{3: 3, 2: 2} {
		found := page(Reading{Kind: widget, Namespaces: []string{"a"}, Limit: 4, MaxBytes: three.Bytes + room})
		if len(found.Items) != want || !found.More {
			t.Errorf("%d objects with %d bytes for separators, want %d", len(found.Items), room, want)
		}
	}
}

// TestAListThatIsNotTooLargeAnyMoreWakes deletes an object after the run has begun to
// read its kind, and before it lists too many.
func TestAListThatIsNotTooLargeAnyMoreWakes(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	p.put("a", "y")
	c, s := edgeCache(t, p)
	i := acquire(t, c)
	run := begin(c, me, &OwnWrites{})
	defer run.Abandon()
	one, err := run.Get(widget, object.Key{Namespace: "a", Name: "x"}, whole)
	if err != nil {
		t.Fatal(err)
	}
	tooLarge := Reading{Kind: widget, Namespaces: []string{"a"}, MaxBytes: len(one.Raw) + 1}
	list := func() {
		t.Helper()
		if _, err := run.List(tooLarge); !errors.Is(err, ErrTooLarge) {
			t.Errorf("got %v", err)
		}
	}
	if err := waitReached(within(t), i, p.put("b", "other")); err != nil {
		t.Fatal(err)
	}
	s.expect(p)
	list()
	if len(s.calls) != 0 {
		t.Errorf("woken: %s", <-s.calls)
	}
	p.remove("a", "y")
	s.expect(p, "me by a/y")
	list()
	if got := receive(t, s.calls); got != "me by nothing" {
		t.Errorf("woken: %s", got)
	}
}

func TestOwnWritesThatWerePassedAreDroppedByReads(t *testing.T) {
	p := newPeer(t)
	c, _ := edgeCache(t, p)
	i := acquire(t, c)
	var own OwnWrites
	for n := range 2 * minSweep {
		if err := waitReached(within(t), i, p.put("a", fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
		o, _ := i.Get(object.Key{Namespace: "a", Name: fmt.Sprint(n)})
		own.sweepAt = 1 << 20 // as after very many
		own.Wrote(i, o)
	}
	run := begin(c, me, &own)
	defer run.Abandon()
	if _, err := run.List(widgets("a", nil)); err != nil {
		t.Fatal(err)
	}
	if own.count != 0 {
		t.Errorf("%d are kept", own.count)
	}
}

func TestUnrecordedReadsWakeNobody(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x")
	c, s := edgeCache(t, p)
	i := acquire(t, c)
	informers := func(abi.Kind) *Informer { return i }
	first, second := c.BeginUnrecorded(me, &OwnWrites{}, informers), c.BeginUnrecorded(me, &OwnWrites{}, informers)
	for _, run := range []*Run{first, second} {
		if o, err := run.Get(widget, object.Key{Namespace: "a", Name: "x"}, whole); o == nil || err != nil {
			t.Error(o, err)
		}
	}
	p.put("a", "x", `"generation":2`)
	p.put("a", "y")
	s.expect(p) // nothing
	found, err := first.List(Reading{Kind: widget, Namespaces: []string{"a"}})
	if err != nil || len(found.Items) != 1 || found.Items[0].Generation == 2 { // of the state that it has read before
		t.Errorf("%v, %v", found, err)
	}
	first.Close()
	if _, err := first.Get(widget, object.Key{Namespace: "a", Name: "x"}, whole); !errors.Is(err, errEnded) {
		t.Errorf("after its end: %v", err)
	}
	second.Close()
}
