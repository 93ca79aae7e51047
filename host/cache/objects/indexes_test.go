package objects

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

// A list in pages does not count at each of them what is left.
func TestPagesOfAnIndexLookAtWhatTheyReturn(t *testing.T) {
	s := filled(t, 5000)
	s.build(Attribute{Label: "all"})
	for text, most := range map[string]int{"all=x": 3 * 5000, "all in (v,w,x,y)": 5 * 5000} {
		looked := 0
		n, pages := s.Open(), 0
		before := allocated()
		readPages(t, n, Query{Selector: selector(t, text), Look: func(cost int) { looked += cost }}, func([]*object.Object) { pages++ })
		if pages != 100 || looked > most {
			t.Errorf("%s: %d looked at for 5000 objects in %d pages", text, looked, pages)
		}
		if took := allocated() - before; took > 5000*400 { // 5000 pointers, sorted at each page, are 8 MB
			t.Errorf("%s: %d bytes of memory", text, took)
		}
	}
}

// readPages reads a list in pages of 50.
func readPages(t fatal, n *Snapshot, q Query, page func([]*object.Object)) {
	for {
		found, err := n.List(q)
		if err != nil {
			t.Fatal(err)
		}
		var items []*object.Object
		for o := range found {
			if items = append(items, o); len(items) == 50 {
				break
			}
		}
		if len(items) == 0 {
			return
		}
		page(items)
		q.After = items[len(items)-1].Key()
	}
}

// A list by many values pays for each of them, also if no object has it.
func TestEachValueOfAListIsPaid(t *testing.T) {
	s := filled(t, worthIndexing)
	s.build(Attribute{Label: "n"})
	var none []string
	for i := range 3000 {
		none = append(none, fmt.Sprintf("none-%d", i))
	}
	looked := 0
	list(t, s.Open(), Query{Selector: selector(t, "n in ("+strings.Join(none, ",")+")"), Look: func(cost int) {
		if looked += cost; cost > reportEvery {
			t.Errorf("%d at once", cost)
		}
	}})
	if looked < len(none) {
		t.Errorf("%d values: %d", len(none), looked)
	}
}

// TestIndexesThatWouldBeLargeAreNotKept has a field of which objects have many values,
// and many changes while an index is built.
func TestIndexesThatWouldBeLargeAreNotKept(t *testing.T) {
	s := filled(t, worthIndexing)
	now := time.Now()
	of := Attribute{Label: "n"}
	b, _ := s.BeginIndex(of, "p", now)
	b.Run(nil)
	for range 10 {
		s.Put(parse(t, object.Key{Name: "large"}, nil, maxBuildBytes/4))
	}
	if len(b.changes) > 5 {
		t.Errorf("%d changes are kept", len(b.changes))
	}
	s.EndIndex(b, now)
	if again, limited := s.BeginIndex(of, "p", now); len(s.indexes) != 0 || again != nil || limited {
		t.Error("an index of what has changed very much is kept")
	}
	if again, _ := s.BeginIndex(of, "p", now.Add(keepFor)); again == nil {
		t.Error("it is never built again")
	}
	for i := range 10 * maxIndexes {
		s.refuse(Attribute{Label: fmt.Sprint(i)}, "p", now)
	}
	if len(s.refused) > 4*maxIndexes {
		t.Errorf("%d are remembered", len(s.refused))
	}
}

func TestALargeObjectIsACandidateForEachList(t *testing.T) {
	s := filled(t, worthIndexing)
	s.Put(parseSpec(t, object.Key{Name: "large"}, nil, `{"one":"x","two":"`+strings.Repeat("y", maxObjectBytes)+`"}`))
	s.build(field(t, "spec.one"))
	q := Query{}
	var err error
	if q.Fields, err = fieldpath.ParseSelector("spec.one=x"); err != nil {
		t.Fatal(err)
	}
	if got := list(t, s.Open(), q); len(got) != 1 {
		t.Errorf("%d objects", len(got))
	}
}

func TestAnIndexThatWasNotBuiltIsLeftOut(t *testing.T) {
	s := filled(t, worthIndexing)
	b, _ := s.BeginIndex(Attribute{Label: "n"}, "p", time.Now())
	func() {
		defer func() { _ = recover() }()
		b.Run(func(int) { panic("the deadline passed") })
	}()
	s.Put(parse(t, object.Key{Name: "new"}, map[string]string{"n": "new"}, 0))
	b.CatchUp(&sync.Mutex{}) // as if the snapshot had expired, which is no panic
	s.EndIndex(b, time.Now())
	if len(s.indexes)+len(s.builds)+len(s.open.list) != 0 {
		t.Error("something is left of it")
	}
	s.build(Attribute{Label: "n"})
	if len(s.indexes) != 1 {
		t.Error("no index can be built any more")
	}
}

// BenchmarkPages reads lists by an index in pages of 50.
func BenchmarkPages(b *testing.B) {
	for _, objects := range []int{10_000, 100_000} {
		s := New()
		for i := range objects {
			s.Put(parse(b, object.Key{Namespace: fmt.Sprint(i % 10), Name: fmt.Sprint(i)}, map[string]string{"by": fmt.Sprint(i % 4)}, 0))
		}
		s.build(Attribute{Label: "by"})
		n := s.Open()
		for _, text := range []string{"by=1", "by in (1,2)", "by in (0,1,2,3)"} {
			b.Run(fmt.Sprintf("%d/%s", objects, text), func(b *testing.B) {
				pages := 0
				for b.Loop() {
					readPages(b, n, Query{Selector: selector(b, text)}, func([]*object.Object) { pages++ })
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(pages), "us/page")
			})
			b.Run(fmt.Sprintf("%d/%s at once", objects, text), func(b *testing.B) {
				for b.Loop() {
					list(b, n, Query{Selector: selector(b, text)})
				}
			})
		}
	}
}

// What changes while an index is built is applied to it without the lock.
func TestAnIndexCatchesUpWithWhatHasChanged(t *testing.T) {
	s := filled(t, worthIndexing)
	b, _ := s.BeginIndex(Attribute{Label: "n"}, "p", time.Now())
	b.Run(nil)
	for i := range worthIndexing {
		s.Put(parse(t, object.Key{Namespace: fmt.Sprint(i % 10), Name: fmt.Sprint(i)}, map[string]string{"n": "new"}, 0))
	}
	var lock sync.Mutex
	if !b.CatchUp(&lock) || len(b.changes) != 0 {
		t.Errorf("%d changes are left", len(b.changes))
	}
	if b.CatchUp(&lock) {
		t.Error("it never ends")
	}
	s.EndIndex(b, time.Now())
	looked := 0
	if found := list(t, s.Open(), Query{Selector: selector(t, "n=new"), Look: func(cost int) { looked += cost }}); len(found) != worthIndexing {
		t.Errorf("%d objects have the new label", len(found))
	}
	if found := list(t, s.Open(), Query{Selector: selector(t, "n=7")}); len(found) != 0 {
		t.Error("an object is found by its former label")
	}
	if looked > 3*worthIndexing {
		t.Errorf("%d were looked at", looked)
	}
}

// The text of an object that is packed, or replaced, must not stay because of its label.
func TestAnIndexKeepsNoObjectInMemory(t *testing.T) {
	s := filled(t, worthIndexing)
	s.build(Attribute{Label: "n"})
	key := object.Key{Namespace: "a", Name: "new"}
	o := parse(t, key, map[string]string{"n": "new-value"}, 0)
	s.Put(o)
	clear(o.Raw)
	if _, found := s.indexes["n"].tree.Get(labelled{"new-value", at(key)}); !found {
		t.Error("the index has lost the value of the object")
	}
}

// To find the values would take too long at each change.
func TestALargeObjectHasNoValuesInAnIndex(t *testing.T) {
	of := field(t, "spec.a[*]")
	with := func(values, padding int) *object.Object {
		var list []string
		for i := range values {
			list = append(list, fmt.Sprint(i))
		}
		return parseSpec(t, keyOf(1), nil, fmt.Sprintf(`{"a":[%s],"b":%q}`, strings.Join(list, ","), strings.Repeat("x", padding)))
	}
	for name, c := range map[string]struct {
		o        *object.Object
		overflow bool
	}{
		"small": {with(1, 0), false}, "large": {with(1, maxObjectBytes), true},
		"as many values as may be": {with(maxValues, 0), false}, "too many": {with(maxValues+1, 0), true},
	} {
		if got := of.values(c.o); slices.Equal(got, overflow) != c.overflow {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The value stands for those with too many in an index.
func TestAnObjectWithTheValueOfTooManyIsListedOnce(t *testing.T) {
	s := filled(t, worthIndexing)
	s.Put(parseSpec(t, keyOf(1), nil, `{"a":"\u0000"}`))
	of := field(t, "spec.a")
	s.build(of)
	query := Query{Fields: fieldpath.Selector{{Path: of.field, Value: overflow[0]}}}
	if found := list(t, s.Open(), query); len(found) != 1 {
		t.Errorf("%d objects", len(found))
	}
}

func TestASnapshotExpiresAlsoIfOneOfItsUsersHasClosedIt(t *testing.T) {
	s := filled(t, 10)
	n := s.Open()
	s.Close(s.Open())
	for range 10 {
		s.Put(parse(t, keyOf(1), nil, maxReplaced/8))
	}
	if _, err := n.Get(keyOf(1)); !errors.Is(err, ErrExpired) {
		t.Errorf("it keeps everything: %v", err)
	}
}
