package objects

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/host/object"
)

// indexFor builds the index of a label for a plugin, as a list does that needs it.
func (s *Set) indexFor(by, label string, now time.Time) (built, limited bool) {
	b, limited := s.BeginIndex(Attribute{Label: label}, by, now)
	if b != nil {
		b.Run(nil)
		limited = s.EndIndex(b, now)
	}
	return s.indexes[label] != nil, limited
}

// held returns how many indexes are for each plugin.
func (s *Set) held() map[string]int {
	held := map[string]int{}
	for _, x := range s.indexes {
		held[x.use.Load().by]++
	}
	return held
}

func TestIndexesAreBounded(t *testing.T) {
	s := filled(t, worthIndexing)
	now := time.Now()
	for i := range maxIndexes {
		if built, limited := s.indexFor("p", fmt.Sprint(i), now); !built || limited {
			t.Fatal(i)
		}
	}
	if built, limited := s.indexFor("p", "another", now); built || !limited {
		t.Error("an index too many was made, or nobody is told")
	}
	if _, limited := s.indexFor("p", "another", now); limited {
		t.Error("each list tells it")
	}
	now = now.Add(keepFor)
	n := s.Open()
	if missing := n.Unindexed(Query{By: "p", Selector: selector(t, "0=x,q=x")}, now); len(missing) != 1 || missing[0].Label != "q" {
		t.Errorf("unindexed: %v", missing)
	}
	if built, _ := s.indexFor("p", "another", now); !built || s.indexes["0"] == nil || len(s.indexes) != maxIndexes {
		t.Error("the index that was not used made no room")
	}
	small := filled(t, worthIndexing-1)
	if built, limited := small.indexFor("p", "n", now); built || limited {
		t.Error("few objects are indexed")
	}
}

// Whatever plugins ask for, one that has no more than its part gets it, and keeps it.
func TestEachPluginHasItsPartOfTheIndexes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now, asked := filled(t, worthIndexing), time.Now(), 0
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				by := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "by")
				before := s.held()
				with := len(before)
				if before[by] == 0 {
					with++
				}
				asked++
				now = now.Add(time.Millisecond)
				built, limited := s.indexFor(by, fmt.Sprint(asked), now)
				if built == limited {
					t.Fatalf("built: %v, limited: %v", built, limited)
				}
				if part := maxIndexes / with; !built && before[by] < part {
					t.Fatalf("%s has %d of %v, and gets no further", by, before[by], before)
				}
				for other, n := range s.held() {
					if lost := before[other] - n; other != by && lost > 0 && before[other] <= maxIndexes/with {
						t.Fatalf("%s had %d of %v, and loses %d", other, before[other], before, lost)
					}
				}
				if len(s.indexes) > maxIndexes {
					t.Fatalf("%d indexes", len(s.indexes))
				}
			},
			"use": func(t *rapid.T) {
				n := s.Open()
				defer s.Close(n)
				text := fmt.Sprintf("%d=x", rapid.IntRange(0, asked).Draw(t, "label"))
				n.Unindexed(Query{By: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "by"), Selector: selector(t, text)}, now)
			},
		})
	})
}

// An index is for the plugin that uses it: another one may have asked for it first, and
// its part is not taken by what only others use.
func TestAnIndexIsForThePluginThatUsesIt(t *testing.T) {
	s, now := filled(t, worthIndexing), time.Now()
	s.indexFor("a", "n", now)
	used := func(by string) string {
		n := s.Open()
		defer s.Close(n)
		n.Unindexed(Query{By: by, Selector: selector(t, "n=1")}, now)
		return s.indexes["n"].use.Load().by
	}
	now = now.Add(keepFor / 2)
	if by := used("b"); by != "a" {
		t.Errorf("it is for %s while a uses it", by)
	}
	now = now.Add(keepFor / 2)
	if by := used("b"); by != "b" {
		t.Errorf("it is for %s, which does not use it any more", by)
	}
}

// A plugin that builds indexes all the time, and is refused, keeps no other one from it.
func TestBuildsOfAPluginDoNotDelayOthers(t *testing.T) {
	s, now := filled(t, worthIndexing), time.Now()
	of := Attribute{Label: "n"}
	s.refuse(of, "a", now)
	b, _ := s.BeginIndex(Attribute{Label: "all"}, "a", now)
	if again, _ := s.BeginIndex(Attribute{Label: "other"}, "a", now); b == nil || again != nil {
		t.Error("a plugin builds several indexes at once")
	}
	if built, _ := s.indexFor("b", "n", now); !built {
		t.Error("what is refused for one plugin is refused for others")
	}
	if built, _ := s.indexFor("b", "all", now); !built {
		t.Error("the index that another plugin builds is not built")
	}
	b.Run(nil)
	if limited := s.EndIndex(b, now); limited || s.indexes["all"].use.Load().by != "b" {
		t.Error("the second index of the same label replaces the first")
	}
	s.refuse(of, "b", now)
	for i := range 10 * maxIndexes {
		s.refuse(Attribute{Label: fmt.Sprint(i)}, "a", now)
	}
	if s.refused[refusal{"b", "n"}].IsZero() {
		t.Error("the refusals of one plugin make the host forget those of another")
	}
}

// Objects that get more values after the index was made do not make it larger than the room.
func TestAnIndexThatHasGrownMakesRoom(t *testing.T) {
	s, now := New(), time.Now()
	s.room = 8 * worthIndexing
	put := func(values int) {
		for i := range worthIndexing {
			many := ""
			for v := range values {
				many += fmt.Sprintf(`,{"name":"%d-%d"}`, i, v)
			}
			s.Put(parseSpec(t, object.Key{Name: fmt.Sprint(i)}, map[string]string{"n": fmt.Sprint(i)}, `{"many":[`+strings.TrimPrefix(many, ",")+`]}`))
		}
	}
	put(1)
	s.indexFor("b", "n", now)
	s.build(field(t, "spec.many[*].name"))
	if len(s.indexes) != 2 {
		t.Fatalf("%d indexes", len(s.indexes))
	}
	put(maxValues)
	if s.entries() > s.room || s.indexes["n"] == nil {
		t.Errorf("%d entries, there is room for %d; indexes: %v", s.entries(), s.room, s.held())
	}
	b, _ := s.BeginIndex(field(t, "spec.many[*].name"), "p", now)
	b.Run(nil)
	if limited := s.EndIndex(b, now); !limited || len(s.indexes) != 1 {
		t.Error("an index that is too large is kept, or nobody is told")
	}
}
