package objects

import (
	"fmt"
	"testing"
)

// What leaves the set is not counted as packed any more, without another sweep.
func TestMemoryIsRightBetweenSweeps(t *testing.T) {
	s := ofSpecs(t, 300, halfRandom)
	s.sweeps(2 * packAfter)
	for i := range 100 {
		s.Remove(keyOf(i))
		s.Put(parseSpec(t, keyOf(100+i), nil, halfRandom(i)))
	}
	before, _ := s.Memory()
	s.sweep()
	if after, _ := s.Memory(); after != before {
		t.Errorf("%d bytes, and %d after a sweep that has packed nothing", before, after)
	}
}

// A sweep counts what it has packed when it has ended.
func TestMemoryIsRightDuringASweep(t *testing.T) {
	s := ofSpecs(t, 300, halfRandom)
	s.sweeps(packAfter - 1)
	for w := s.beginSweep(); s.nextSlice(w); {
		continue
	}
	before, _ := s.Memory()
	e := s.Find(keyOf(1))
	s.Remove(keyOf(1))
	if after, _ := s.Memory(); e.packed == nil || after != before-uint64(e.size()+objectBytes) {
		t.Errorf("%d bytes, and %d without an object of %d", before, after, e.size())
	}
}

// Otherwise what is read again would count as packed as long as the set exists.
func TestASetThatHasBecomeSmallIsSweptWhileObjectsArePacked(t *testing.T) {
	const left = 100
	s := ofSpecs(t, 500, halfRandom)
	s.sweeps(2 * packAfter)
	for i := left; i < 500; i++ {
		s.Remove(keyOf(i))
	}
	s.All(func(e *Entry) bool { return e.Unpacked() != nil })
	w := s.BeginSweep()
	if w == nil {
		t.Fatal("it is not swept")
	}
	for s.nextSlice(w) {
		continue
	}
	s.EndSweep(w)
	want, _ := ofSpecs(t, left, halfRandom).Memory()
	if got, _ := s.Memory(); got != want {
		t.Errorf("%d bytes, and %d if they were never packed", got, want)
	}
	if s.BeginSweep() != nil {
		t.Error("it is swept although nothing is packed")
	}
}

// The replaced objects of a list wait for their events, all at the same time.
func TestAnObjectThatIsReplacedStaysPacked(t *testing.T) {
	const count = worthIndexing
	s := ofSpecs(t, count, halfRandom)
	s.build(Attribute{Label: "n"})
	s.sweeps(2 * packAfter)
	s.All(func(e *Entry) bool { return e.Object() != nil })
	s.sweep() // to read one now would be the second time
	for i := range count {
		old := s.Find(keyOf(i))
		s.Put(parseSpec(t, keyOf(i), map[string]string{"n": fmt.Sprint("new-", i)}, "1"))
		if old.packed == nil {
			t.Fatalf("object %d is kept parsed for its index", i)
		}
	}
}

func TestASweepGoesOnAfterASnapshotThatHasExpired(t *testing.T) {
	s := ofSpecs(t, 10, halfRandom)
	w, n := s.beginSweep(), s.Open()
	for range 10 {
		s.Put(parse(t, keyOf(1), nil, maxReplaced/8))
	}
	if !w.Next(n) || w.visited != 0 {
		t.Error("the sweep has ended")
	}
}
