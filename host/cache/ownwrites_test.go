package cache

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/edges"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/object"
)

// lateInformer is an informer that receives the changes of a server when the test
// wants it to.
type lateInformer struct {
	*Informer
	cache   *Cache
	store   *store
	t       rapid.TB
	version int
	seen    int            // how much of log the informer has received
	log     []serverChange // one for each version
	objects map[string]*object.Object
	uids    int
	woken   func(Owner) // for what a list went past
}

// read opens a view for a run of a plugin, and returns its list of the objects with
// the label l=x.
func (s *lateInformer) read(o Owner, own *OwnWrites) (list func() []*object.Object) {
	run := s.cache.Begin(o, own, func(abi.Kind) *Informer { return s.Informer })
	l := widgets("ns", labels.SelectorFromSet(labels.Set{"l": "x"}))
	views, err := run.viewsOf(l)
	if err == nil {
		err = run.open(views[0])
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return func() []*object.Object {
		defer run.Abandon()
		found, err := collect(l, views)
		if err != nil {
			s.t.Fatal(err)
		}
		return found.Items
	}
}

type serverChange struct {
	name string
	now  *object.Object // nil: deleted
}

func newLateInformer(t rapid.TB) *lateInformer {
	s := &lateInformer{t: t, objects: map[string]*object.Object{}, woken: func(Owner) {}}
	c := &Cache{config: Config{}.withDefaults(), hooks: Hooks{Wake: func(o Owner, _ Event, _ bool) { s.woken(o) }}.withDefaults(), edges: edges.New(edges.Config{})}
	i := &informer{cache: c, scope: scope.All(widget), store: newStore(), edges: c.edges.Kind(widget), ctx: context.Background()}
	i.resource.Store(&object.Resource{Kind: widget, Namespaced: true})
	s.Informer, s.cache, s.store = &Informer{scope: i.scope, parts: []part{{informer: i}}}, c, i.store
	s.relist()
	return s
}

// versionAt returns the resourceVersion after so many changes.
func versionAt(changes int) string { return strconv.Itoa(100 + changes) }

// put creates or changes an object on the server. A label tells states apart.
func (s *lateInformer) put(name, label string) *object.Object {
	s.version++
	if s.objects[name] == nil {
		s.uids++
	}
	uid := fmt.Sprint("u", s.uids)
	if before := s.objects[name]; before != nil {
		uid = string(before.UID)
	}
	o, err := object.Parse(fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":%q,"uid":%q,"resourceVersion":%q,"labels":{"l":%q}}}`, name, uid, versionAt(s.version), label), widget)
	if err != nil {
		s.t.Fatal(err)
	}
	s.objects[name] = o
	s.log = append(s.log, serverChange{name, o})
	return o
}

func (s *lateInformer) delete(name string) {
	s.version++
	delete(s.objects, name)
	s.log = append(s.log, serverChange{name, nil})
}

// receive delivers the next change to the informer.
func (s *lateInformer) receive() {
	if s.seen == len(s.log) {
		return
	}
	change := s.log[s.seen]
	s.seen++
	if change.now != nil {
		_ = s.store.Update(change.now)
	} else if o := s.store.get(keyOf(change.name)); o != nil {
		_ = s.store.Delete(o)
	}
	s.store.UpdateResourceVersion(versionAt(s.seen))
}

func (s *lateInformer) relist() { s.relistAt(len(s.log)) }

// relistAt is a list as of a version, which may be behind.
func (s *lateInformer) relistAt(version int) {
	objects := map[string]*object.Object{}
	for _, change := range s.log[:version] {
		if objects[change.name] = change.now; change.now == nil {
			delete(objects, change.name)
		}
	}
	var all []any
	for _, o := range objects {
		all = append(all, o)
	}
	s.seen = version
	_ = s.store.Replace(all, versionAt(version))
}

// at returns the state of an object at a version.
func (s *lateInformer) at(name string, version int) (o *object.Object) {
	for _, change := range s.log[:version] {
		if change.name == name {
			o = change.now
		}
	}
	return o
}

// actions returns what may happen to objects of these names: writes of a plugin, of
// which wrote is told, those of others, and what the informer receives.
func (s *lateInformer) actions(own *OwnWrites, names []string, wrote func(name string)) map[string]func(*rapid.T) {
	name := func(t *rapid.T) string { return rapid.SampledFrom(names).Draw(t, "name") }
	label := func(t *rapid.T) string { return rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "label") }
	return map[string]func(*rapid.T){
		"own write": func(t *rapid.T) {
			n := name(t)
			own.Wrote(s.Informer, s.put(n, label(t)))
			wrote(n)
		},
		"own delete": func(t *rapid.T) {
			n := name(t)
			o := s.objects[n]
			if o == nil {
				t.Skip("there is nothing to delete")
			}
			s.delete(n)
			own.Deleted(s.Informer, o.Key(), o.UID, o.ResourceVersion)
			wrote(n)
		},
		"write by others": func(t *rapid.T) { s.put(name(t), label(t)) },
		"delete by others": func(t *rapid.T) {
			if n := name(t); s.objects[n] != nil {
				s.delete(n)
			}
		},
		"event":  func(*rapid.T) { s.receive() },
		"relist": func(t *rapid.T) { s.relistAt(rapid.IntRange(s.seen, len(s.log)).Draw(t, "version")) },
	}
}

func keyOf(name string) object.Key { return object.Key{Namespace: "ns", Name: name} }

// Whatever the plugin and others write, and however late the informer is, a read
// returns the state at the plugin's last write of the object, or a later one that
// the informer has reached.
func TestReadsContainOwnWritesHoweverLateTheInformerIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		server, own := newLateInformer(t), &OwnWrites{}
		last := map[string]int{} // the version of the plugin's last write
		names := []string{"a", "b", "c"}
		actions := server.actions(own, names, func(name string) { last[name] = server.version })
		actions["sweep"] = func(*rapid.T) { own.mu.Lock(); own.sweep(); own.mu.Unlock() }
		actions[""] = func(t *rapid.T) {
			var want []string
			for _, n := range names {
				o := server.at(n, max(last[n], server.seen))
				if got := own.Get(server.Informer, keyOf(n)); got != o {
					t.Fatalf("%s is %v, want %v", n, stateOf(got), stateOf(o))
				}
				if o != nil && o.Labels["l"] == "x" {
					want = append(want, n)
				}
			}
			var got []string
			for _, o := range server.read(Owner{}, own)() {
				got = append(got, o.Name)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("listed %v, want %v", got, want)
			}
		}
		t.Repeat(actions)
	})
}

func stateOf(o *object.Object) string {
	if o == nil {
		return "absent"
	}
	return string(o.Raw)
}

// An object that was created and deleted before the informer has seen either must
// not appear when it sees the creation.
func TestADeletedObjectDoesNotAppearWithTheEventOfItsCreation(t *testing.T) {
	server, own := newLateInformer(t), &OwnWrites{}
	o := server.put("a", "x")
	own.Wrote(server.Informer, o)
	server.delete("a")
	own.Deleted(server.Informer, o.Key(), o.UID, o.ResourceVersion)
	for range 3 {
		if got := own.Get(server.Informer, o.Key()); got != nil {
			t.Errorf("after %d events there is %s", server.seen, stateOf(got))
		}
		server.receive()
	}
	if own.count != 0 {
		t.Errorf("%d entries are left", own.count)
	}
}

func TestOwnWritesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, own := newLateInformer(t), &OwnWrites{}
		for i := range maxOwnWrites {
			if own.Full() {
				t.Fatalf("full after %d writes", i)
			}
			own.Wrote(server.Informer, server.put(fmt.Sprint(i), "x"))
		}
		if !own.Full() {
			t.Error("not full")
		}
		server.relist()
		time.Sleep(sweepInterval) // fake time
		if own.Full() || own.count != 0 || own.bytes != 0 {
			t.Errorf("%d entries of %d bytes are left after the informer has passed them", own.count, own.bytes)
		}
	})
}

func TestEntriesOfAFastInformerAreDroppedWithoutReads(t *testing.T) {
	server, own := newLateInformer(t), &OwnWrites{}
	for i := range 10 * minSweep {
		own.Wrote(server.Informer, server.put(fmt.Sprint(i), "x"))
		server.receive()
	}
	if own.count > 2*minSweep {
		t.Errorf("%d entries are kept", own.count)
	}
	own.swept = time.Time{} // it was long ago
	if n := own.Len(); n != 0 {
		t.Errorf("%d objects are said not to be shown", n)
	}
}

// Nobody reads through an informer that has stopped, and it passes nothing any more.
func TestOwnWritesEndWithTheirInformer(t *testing.T) {
	server, own := newLateInformer(t), &OwnWrites{}
	ctx, stop := context.WithCancel(t.Context())
	server.parts[0].ctx = ctx
	own.Wrote(server.Informer, server.put("a", "x"))
	own.sweep()
	if own.count != 1 {
		t.Errorf("%d entries while the informer is late", own.count)
	}
	stop()
	if own.sweep(); own.count != 0 {
		t.Errorf("%d entries are left", own.count)
	}
}

// The API server may have lost what was written before it was restored.
func TestTheLastKnownStateOfAnObjectMayBeAnOwnWrite(t *testing.T) {
	s, own := newLateInformer(t), &OwnWrites{}
	shown := s.put("a", "x")
	s.relist()
	wrote := s.put("a", "y")
	own.Wrote(s.Informer, wrote)
	s.delete("a")
	s.relist() // which has passed the write
	if last := own.LastKnown(s.Informer, shown); last != wrote {
		t.Errorf("the last known version is %s, want %s", last.ResourceVersion, wrote.ResourceVersion)
	}
	if last := own.LastKnown(s.Informer, wrote); last.ResourceVersion != wrote.ResourceVersion {
		t.Errorf("the last known version is %s", last.ResourceVersion)
	}
	own.Deleted(s.Informer, shown.Key(), shown.UID, wrote.ResourceVersion)
	if last := own.LastKnown(s.Informer, shown); last != shown {
		t.Errorf("after a deletion the last known version is %s", last.ResourceVersion)
	}
}

func TestOwnWritesEndWithARestore(t *testing.T) {
	server, own := newLateInformer(t), &OwnWrites{}
	before := server.put("a", "x")
	server.relist()
	own.Wrote(server.Informer, server.put("a", "y"))
	own.Wrote(server.Informer, server.put("b", "y"))
	_ = server.store.Replace([]any{before}, versionAt(0))
	for name, want := range map[string]*object.Object{"a": before, "b": nil} {
		if got := own.Get(server.Informer, keyOf(name)); got != want {
			t.Errorf("%s is %s", name, stateOf(got))
		}
	}
}

// Without an order of versions the first change that the informer shows counts.
func TestOwnWritesOfAServerWithoutOrderedVersions(t *testing.T) {
	server, own := newLateInformer(t), &OwnWrites{}
	at := func(version string) *object.Object {
		o, err := object.Parse(fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":%q}}`, version), widget)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	_ = server.store.Replace([]any{at("first")}, "somewhere")
	second := at("second")
	own.Wrote(server.Informer, second)
	if got := own.Get(server.Informer, second.Key()); got != second {
		t.Errorf("read %s", stateOf(got))
	}
	third := at("third")
	_ = server.store.Update(third)
	if got := own.Get(server.Informer, second.Key()); got != third {
		t.Errorf("read %s after it was changed", stateOf(got))
	}
}

// Whether the API server selects an object by a field is not seen by its text: fields have
// defaults. A write that leaves the field as it was does not take the object away.
func TestAWriteIsShownOfAnObjectThatTheServerSelectsByAField(t *testing.T) {
	s := newLateInformer(t)
	followed, err := scope.Of(abi.Followed{Kind: widget, Selector: abi.Selector{FieldSelector: "spec.paused=false"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Informer.scope, s.Informer.parts[0].informer.scope = followed, followed
	s.put("a", "old")
	s.receive()
	own := &OwnWrites{}
	own.Wrote(s.Informer, s.put("a", "new"))
	if o := own.Get(s.Informer, keyOf("a")); o == nil || o.Labels["l"] != "new" {
		t.Errorf("the plugin reads %v", o)
	}
}

// The watch of a namespace shows no version of another one, except now and then in a
// bookmark.
func TestWaitForWaitsForTheNamespaceThatWasWritten(t *testing.T) {
	a, b := newLateInformer(t), newLateInformer(t)
	both := &Informer{scope: scope.Scope{Kind: widget, Namespaces: []string{"a", "b"}}}
	for ns, late := range map[string]*lateInformer{"a": a, "b": b} {
		late.parts[0].informer.scope = scope.Scope{Kind: widget, Namespaces: []string{ns}}
		both.parts = append(both.parts, late.parts[0])
	}
	b.put("w", "x")
	version := versionAt(b.version)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := both.WaitFor(ended, "b", version); err == nil {
		t.Error("did not wait for the informer of the namespace")
	}
	b.receive()
	if err := both.WaitFor(ended, "b", version); err != nil {
		t.Errorf("waits for another namespace: %v", err)
	}
	if err := both.WaitFor(ended, "", version); err == nil {
		t.Error("did not wait for all namespaces")
	}
}

// What a plugin has written counts once, whether or not the informer shows it, and whether
// or not the object is packed.
func TestBytesOfAManagerAreThoseOfInformerAndOwnWrites(t *testing.T) {
	s, own := newLateInformer(t), &OwnWrites{}
	written := func(name, by string, size int) *object.Object {
		s.version++
		o, err := object.Parse(fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":%q,"uid":%q,"resourceVersion":%q,"managedFields":[`+
			`{"manager":%q,"operation":"Apply","apiVersion":"v1","fieldsV1":{"f:data":{"f:a":{}}}}]},"data":{"a":%q}}`,
			name, name, versionAt(s.version), by, strings.Repeat("x", size)), widget)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	expect := func(want int) {
		t.Helper()
		if got := s.BytesBy("thole/p/", own); got < want*15/16 || got > want*5/4+1024 {
			t.Errorf("%d bytes, want about %d", got, want)
		}
	}
	expect(0)
	for _, o := range []*object.Object{written("a", "thole/p/c", 100_000), written("b", "thole/p2/c", 100_000), written("c", "kubectl", 100_000)} {
		_ = s.store.Update(o)
	}
	expect(100_000)
	own.Wrote(s.Informer, written("a", "thole/p/c", 300_000)) // grows
	d := written("d", "thole/p/c", 200_000)
	own.Wrote(s.Informer, d)
	expect(500_000)
	own.Deleted(s.Informer, keyOf("a"), "a", versionAt(s.version))
	expect(200_000)
	_ = s.store.Update(d)
	expect(200_000)
	for range 10 {
		s.store.sweep(t.Context())
	}
	expect(200_000)
}
