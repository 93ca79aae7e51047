package objects

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

type fatal interface{ Fatal(args ...any) }

var widget = abi.Kind{APIVersion: "example.dev/v1", Kind: "Widget"}

// parse returns an object with labels and bytes of padding.
func parse(t fatal, key object.Key, labels map[string]string, padding int) *object.Object {
	return parseSpec(t, key, labels, fmt.Sprintf("%q", strings.Repeat("x", padding)))
}

// field returns the attribute of a path.
func field(t fatal, path string) Attribute {
	parsed, err := fieldpath.ParsePath(path)
	if err != nil {
		t.Fatal(err)
	}
	return Attribute{path: path, field: parsed}
}

func parseSpec(t fatal, key object.Key, labels map[string]string, spec string) *object.Object {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		text += fmt.Sprintf(",%q:%q", name, labels[name])
	}
	if text != "" {
		text = text[1:]
	}
	o, err := object.Parse(fmt.Appendf(nil, `{"metadata":{"namespace":%q,"name":%q,"labels":{%s}},"spec":%s}`, key.Namespace, key.Name, text, spec), widget)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// owned returns the object with an owner reference, unless the UID is "".
func owned(t fatal, o *object.Object, uid string, controller bool) *object.Object {
	if uid == "" {
		return o
	}
	text, err := rawjson.MergePatch(o.Raw, fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"uid":"other"},{"uid":%q,"controller":%t}]}}`, uid, controller))
	if err == nil {
		o, err = object.Parse(text, o.Kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func list(t fatal, n *Snapshot, q Query) []*object.Object {
	found, err := n.List(q)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(found)
}

func selector(t fatal, text string) labels.Selector {
	sel, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return sel
}

// kept is a snapshot with what it must have.
type kept struct {
	snapshot *Snapshot
	objects  map[object.Key]*object.Object
}

// isSame reports whether an object is the same as another one in each bit that can be read,
// except for the fields that the host has applied.
func isSame(a, b *object.Object) bool {
	return a == b || a != nil && b != nil && a.Kind == b.Kind && a.MetadataOnly == b.MetadataOnly && bytes.Equal(a.Raw, b.Raw) && cap(a.Raw) == len(a.Raw) && equality.Semantic.DeepEqual(a.ObjectMeta, b.ObjectMeta)
}

// sweep packs what was not read since the last four sweeps. It returns how many objects
// are packed.
func (s *Set) sweep() (packed int) {
	w := s.beginSweep()
	for s.nextSlice(w) {
		continue
	}
	w.Judge()
	s.EndSweep(w)
	s.All(func(e *Entry) bool {
		if e.packed != nil {
			packed++
		}
		return true
	})
	return packed
}

func (s *Set) nextSlice(w *Sweep) (more bool) {
	n := s.Open()
	defer s.Close(n)
	return w.Next(n)
}

func (k kept) check(t *rapid.T, q Query) {
	var want []*object.Object
	for _, o := range slices.SortedFunc(maps.Values(k.objects), Compare) {
		if q.Matches(o) && o.Key().Compare(q.After) > 0 {
			want = append(want, o)
		}
	}
	if got := list(t, k.snapshot, q); !slices.EqualFunc(got, want, isSame) {
		t.Fatalf("%+v: %d objects, want %d", q, len(got), len(want))
	}
}

// checkEach gets each object.
func (k kept) checkEach(t *rapid.T) {
	for key, o := range k.objects {
		if got, err := k.snapshot.Get(key); err != nil || !isSame(got, o) {
			t.Fatalf("get %s: %v, %v", key, got, err)
		}
	}
}

// TestSnapshotsStayAsTheyWere compares snapshots with plain maps, whatever is
// changed and indexed after them.
func TestSnapshotsStayAsTheyWere(t *testing.T) {
	names, values := []string{"a", "b", "c", "d"}, []string{"x", "y", "z", ""}
	paths := []string{"spec.one", "spec.many[*].name"}
	rapid.Check(t, func(t *rapid.T) {
		s, model := New(), map[object.Key]*object.Object{}
		in := s // that is changed
		var snapshots []kept
		var builds []*Build
		var slicewise *Sweep
		now := time.Now()
		pick := func(of []string) string { return rapid.SampledFrom(of).Draw(t, "pick") }
		key := func() object.Key { return object.Key{Namespace: pick(names), Name: pick(names) + pick(names)} }
		put := func(k object.Key) {
			many := strings.Repeat(`{"name":"x"},`, rapid.IntRange(0, 2).Draw(t, "x")) + strings.Repeat(`{"name":"y"},`, rapid.IntRange(0, 1).Draw(t, "y"))
			if rapid.IntRange(0, 9).Draw(t, "large") == 0 {
				many += fmt.Sprintf(`{"name":%q},`, strings.Repeat("z", maxValueBytes+1))
			}
			o := parseSpec(t, k, map[string]string{pick(names): pick(values), pick(names): pick(values)}, fmt.Sprintf(`{"one":%q,"many":[%s{}]}`, pick(values), many))
			o = owned(t, o, pick(values), rapid.Bool().Draw(t, "controller"))
			model[k] = o
			in.Put(o)
		}
		remove := func(k object.Key) {
			delete(model, k)
			in.Remove(k)
		}
		for i := range worthIndexing {
			put(object.Key{Namespace: pick(names), Name: fmt.Sprint(i)})
		}
		t.Repeat(map[string]func(*rapid.T){
			"put":    func(*rapid.T) { put(key()) },
			"remove": func(*rapid.T) { remove(key()) },
			"replace": func(t *rapid.T) {
				in = s.BeginReplace()
				snapshots = append(snapshots, kept{s.Open(), maps.Clone(model)})
				for range rapid.IntRange(0, 3).Draw(t, "puts") {
					put(key())
				}
				for range rapid.IntRange(0, 3).Draw(t, "removals") {
					remove(key())
				}
				if rapid.Bool().Draw(t, "sweep") {
					s.sweep()
				}
				if b, _ := s.BeginIndex(Attribute{Label: "a"}, "p", now); b != nil {
					t.Fatal("an index begins that would miss the changes")
				}
				s.EndReplace(in)
				in = s
			},
			"slice": func(*rapid.T) { // of a sweep, between which the set changes
				if slicewise == nil {
					slicewise = s.beginSweep()
					slicewise.slice = 0
				}
				if !s.nextSlice(slicewise) {
					slicewise.Judge()
					s.EndSweep(slicewise)
					slicewise = nil
				}
			},
			"sweep": func(t *rapid.T) {
				for range rapid.IntRange(1, 2*packAfter).Draw(t, "times") {
					s.sweep()
				}
			},
			"open": func(*rapid.T) { snapshots = append(snapshots, kept{s.Open(), maps.Clone(model)}) },
			"close": func(t *rapid.T) {
				if len(snapshots) > 0 {
					i := rapid.IntRange(0, len(snapshots)-1).Draw(t, "which")
					snapshots[i].checkEach(t)
					s.Close(snapshots[i].snapshot)
					snapshots = slices.Delete(snapshots, i, i+1)
				}
			},
			"index": func(*rapid.T) {
				now = now.Add(keepFor / 2)
				of := Attribute{Label: pick(names)}
				switch rapid.IntRange(0, 2).Draw(t, "by") {
				case 0:
					of = field(t, pick(paths))
				case 1:
					of = Attribute{path: controllerPath}
				}
				if b, _ := s.BeginIndex(of, "p", now); b != nil {
					builds = append(builds, b)
				}
			},
			"build": func(*rapid.T) {
				if len(builds) > 0 {
					builds[0].Run(nil)
					for rapid.Bool().Draw(t, "catch up") && builds[0].CatchUp(&sync.Mutex{}) {
						put(key())
					}
					s.EndIndex(builds[0], now)
					builds = builds[1:]
				}
			},
			"": func(t *rapid.T) {
				q := Query{Selector: selector(t, rapid.SampledFrom([]string{"", "a=x", "a=x,b=y", "a in (x,y,)", "a", "!a", "a!=x", "a notin (x,y)", "c==z,a"}).Draw(t, "selector"))}
				var err error
				if q.Fields, err = fieldpath.ParseSelector(rapid.SampledFrom([]string{"", "", "spec.one=x", "spec.one=", "spec.one!=y", "spec.many[*].name=x", "spec.many[*].name=y,spec.one=z"}).Draw(t, "fields")); err != nil {
					t.Fatal(err)
				}
				q.Controller = pick(values)
				if rapid.Bool().Draw(t, "in a namespace") {
					q.Namespace = pick(names)
				}
				if rapid.Bool().Draw(t, "after") {
					q.After = key()
				}
				for _, k := range append(snapshots, kept{s.Open(), model}) {
					k.check(t, q)
				}
				s.Close(s.latest)
				bytes := 0
				for _, o := range model {
					bytes += len(o.Raw)
				}
				if s.Len() != len(model) || s.Bytes() != bytes {
					t.Fatalf("%d objects of %d bytes, want %d of %d", s.Len(), s.Bytes(), len(model), bytes)
				}
				if n := len(s.open.list); n > len(snapshots)+len(builds) {
					t.Fatalf("%d snapshots are kept", n)
				}
			},
		})
		for _, k := range append(snapshots, kept{s.Open(), model}) {
			k.checkEach(t)
		}
	})
}

// filled has objects of which each has the label n with a value of its own, and the
// label all.
func filled(t fatal, n int) *Set {
	s := New()
	for i := range n {
		s.Put(parse(t, object.Key{Namespace: fmt.Sprint(i % 10), Name: fmt.Sprint(i)}, map[string]string{"n": fmt.Sprint(i), "all": "x"}, 0))
	}
	return s
}

func (s *Set) build(of Attribute) {
	if b, _ := s.BeginIndex(of, "p", time.Now()); b != nil {
		b.Run(nil)
		s.EndIndex(b, time.Now())
	}
}

func TestAListLooksAtAboutWhatItReturns(t *testing.T) {
	s := filled(t, 5000)
	s.build(Attribute{Label: "n"})
	s.build(Attribute{Label: "all"})
	n := s.Open()
	for text, most := range map[string]int{"n=17": 50, "all=x,n=17": 50, "all in (x),n in (17,18)": 100, "n=17,n!=18": 50, "n=none": 50} {
		looked := 0
		list(t, n, Query{Selector: selector(t, text), Look: func(objects int) { looked += objects }})
		if looked > most {
			t.Errorf("%s: %d objects were looked at", text, looked)
		}
	}
	for i := range 5 {
		s.Put(owned(t, parse(t, object.Key{Name: fmt.Sprint("owned-", i)}, nil, 0), "u1", true))
	}
	s.Put(owned(t, parse(t, object.Key{Name: "another"}, nil, 0), "u1", false))
	s.build(Attribute{path: controllerPath})
	counted := 0
	if found := list(t, s.Open(), Query{Controller: "u1", Look: func(objects int) { counted += objects }}); len(found) != 5 || counted > 50 {
		t.Errorf("%d objects were looked at for %d of one controller", counted, len(found))
	}
	looked := 0
	list(t, n, Query{Namespace: "3", Selector: selector(t, "all=x"), Look: func(objects int) { looked += objects }})
	if looked > 3000 {
		t.Errorf("%d objects were looked at for 500 of one namespace", looked)
	}
}

// All that a list looks at is reported while it does, so that the plugin pays for
// it and can be stopped.
func TestALongListIsReportedInParts(t *testing.T) {
	n := filled(t, 5000).Open()
	total := 0
	list(t, n, Query{Selector: selector(t, "!all"), Look: func(cost int) {
		if total += cost; cost > reportEvery+2 {
			t.Errorf("%d at once", cost)
		}
	}})
	if total < 2*5000 {
		t.Errorf("%d were reported", total)
	}
}

// What is compared with more costs more.
func TestACostlyComparisonIsReported(t *testing.T) {
	s := New()
	s.Put(parse(t, object.Key{Name: "large"}, nil, 1<<20))
	n := s.Open()
	cost := func(q Query) (total int) {
		q.Look = func(cost int) { total += cost }
		list(t, n, q)
		return total
	}
	fields, err := fieldpath.ParseSelector("spec.a!=x,spec.b!=y")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		q    Query
		most int
	}{
		"everything": {Query{}, 1},
		"by labels":  {Query{Selector: selector(t, "!a,!b,!c")}, 4},
		"by fields":  {Query{Fields: fields}, 2*(1<<20)/bytesPerCost + 10},
	} {
		if got := cost(c.q); got > c.most || got < c.most*9/10 {
			t.Errorf("%s: %d, want %d", name, got, c.most)
		}
	}
}

// TestAnOldSnapshotExpires replaces objects while snapshots are open. What they keep
// is bounded.
func TestAnOldSnapshotExpires(t *testing.T) {
	s := filled(t, 10)
	key := object.Key{Namespace: "1", Name: "1"}
	old := s.Open()
	for range maxReplaced / (1<<20 + objectOverhead) {
		if _, err := old.Get(key); err != nil {
			t.Fatal(err)
		}
		s.Put(parse(t, key, nil, 1<<20))
	}
	recent := s.Open()
	s.Put(parse(t, key, nil, 1<<20))
	s.Put(parse(t, key, nil, 1<<20))
	if _, err := old.Get(key); !errors.Is(err, ErrExpired) {
		t.Errorf("get: %v", err)
	}
	if _, err := old.List(Query{}); !errors.Is(err, ErrExpired) {
		t.Errorf("list: %v", err)
	}
	if o, err := recent.Get(key); o == nil || err != nil {
		t.Errorf("the later snapshot: %v", err)
	}
	next := s.BeginReplace()
	for i := range maxReplaced/(1<<20+objectOverhead) + 1 {
		next.Put(parse(t, object.Key{Name: fmt.Sprint(i)}, nil, 1<<20))
		next.Remove(object.Key{Name: fmt.Sprint(i)})
	}
	if s.EndReplace(next); recent.state.Load() != nil {
		t.Error("a snapshot keeps all that a list has replaced")
	}
	s.Close(old)
	s.Close(recent)
	if len(s.open.list) != 0 {
		t.Error("closed snapshots are kept")
	}
}

func BenchmarkListOneOf100000(b *testing.B) {
	s := filled(b, 100_000)
	s.build(Attribute{Label: "n"})
	n := s.Open()
	sel := selector(b, "n=77777")
	b.ReportAllocs()
	for b.Loop() {
		if len(list(b, n, Query{Selector: sel})) != 1 {
			b.Fatal("nothing found")
		}
	}
}

func BenchmarkGetOneOf100000(b *testing.B) {
	s := filled(b, 100_000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i = (i + 7919) % 100_000; s.Find(object.Key{Namespace: fmt.Sprint(i % 10), Name: fmt.Sprint(i)}) == nil {
			b.Fatal(i)
		}
	}
}

func BenchmarkPutAndSnapshotOf100000(b *testing.B) {
	s := filled(b, 100_000)
	s.build(Attribute{Label: "n"})
	o := s.Find(object.Key{Namespace: "3", Name: "77773"}).Object()
	b.ReportAllocs()
	for b.Loop() {
		s.Put(o)
		s.Close(s.Open())
	}
}

func TestMemoryIsThatOfObjectsAndIndexes(t *testing.T) {
	s := filled(t, 1000)
	if objects, indexes := s.Memory(); objects < uint64(s.Bytes()) || indexes != 0 {
		t.Errorf("%d and %d bytes without an index", objects, indexes)
	}
	s.build(Attribute{Label: "n"})
	if _, indexes := s.Memory(); indexes != 1000*entryBytes {
		t.Errorf("%d bytes of an index of 1000 objects", indexes)
	}
	for i := range 1000 {
		s.Remove(object.Key{Namespace: fmt.Sprint(i % 10), Name: fmt.Sprint(i)})
	}
	if objects, indexes := s.Memory(); objects+indexes != 0 {
		t.Errorf("%d and %d bytes without objects", objects, indexes)
	}
}
