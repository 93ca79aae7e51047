package objects

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

// randomStatus returns a status as a plugin may write it.
func randomStatus(random *rand.Rand) string {
	switch random.IntN(8) {
	case 0:
		return `{}`
	case 1:
		return `{"phase":null}`
	case 2:
		return `{"phase":""}`
	case 3:
		return `{"phase":["a","b"]}`
	case 4:
		return fmt.Sprintf(`{"phase":%q}`, strings.Repeat("long", 70))
	case 5:
		return fmt.Sprintf(`{"phase":"Running","padding":%q}`, strings.Repeat("x", maxObjectBytes))
	case 6:
		return fmt.Sprintf(`{"phase":"Pending","tags":["a","b","a",%d]}`, random.IntN(3))
	}
	return fmt.Sprintf(`{"phase":%d,"tags":["1","2","3","4","5","6","7","8",%q]}`, random.IntN(3), fmt.Sprint(random.IntN(10)))
}

// count counts from the text of the objects.
func count(all map[object.Key]string, field fieldpath.Path, shown func(object.Key) bool) Counts {
	c := Counts{ByValue: map[string]int{}}
	for key, text := range all {
		if !shown(key) {
			continue
		}
		switch values := field.Values([]byte(text)); {
		case len(values) == 0:
			c.Without++
		case len(values) > 8:
			c.Other++
		default:
			for _, value := range values {
				if len(value) > maxValueBytes {
					c.Other++
				} else {
					c.ByValue[value]++
				}
			}
		}
	}
	return c
}

// The counts are the same with an index and without one, whatever has changed since it was made.
func TestObjectsAreCountedByTheValuesOfAField(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	s, all := New(), map[object.Key]string{}
	put := func(i int) {
		key := object.Key{Namespace: fmt.Sprint(i % 3), Name: fmt.Sprint(i)}
		if random.IntN(10) == 0 {
			s.Remove(key)
			delete(all, key)
			return
		}
		all[key] = fmt.Sprintf(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":%q,"name":%q},"status":%s}`, key.Namespace, key.Name, randomStatus(random))
		o, err := object.Parse([]byte(all[key]), abi.Kind{})
		if err != nil {
			t.Fatal(err)
		}
		s.Put(o)
	}
	one := func(key object.Key) bool { return key.Namespace == "1" }
	expect := func(indexed bool) {
		t.Helper()
		n := s.Open()
		defer s.Close(n)
		for _, path := range []string{"status.phase", "status.phase[*]", "status.tags[*]", "metadata.namespace"} {
			field, _ := fieldpath.ParsePath(path)
			of := FieldAttribute(field)
			if n.HasIndex(of, "p", now) != indexed {
				t.Fatalf("%s: indexed is %t", path, !indexed)
			}
			for _, shown := range []func(object.Key) bool{nil, one} {
				var entries func(*Entry) bool
				if shown != nil {
					entries = func(e *Entry) bool { return shown(e.Key()) }
				} else {
					shown = func(object.Key) bool { return true }
				}
				got, err := n.Count(of, entries)
				want := count(all, field, shown)
				if err != nil || !maps.Equal(got.ByValue, want.ByValue) || got.Without != want.Without || got.Other != want.Other {
					t.Fatalf("%s: got %v, %v, want %v", path, got, err, want)
				}
			}
		}
	}
	for i := range 600 {
		put(i)
	}
	expect(false)
	for _, path := range []string{"status.phase", "status.phase[*]", "status.tags[*]", "metadata.namespace"} {
		field, _ := fieldpath.ParsePath(path)
		s.build(FieldAttribute(field))
	}
	expect(true)
	for range 20 {
		for range 50 {
			put(random.IntN(700))
		}
		expect(true)
	}
}

func TestASnapshotThatHasExpiredCountsNothing(t *testing.T) {
	s := filled(t, 10)
	n := s.Open()
	n.state.Store(nil)
	field, _ := fieldpath.ParsePath("status.phase")
	if _, err := n.Count(FieldAttribute(field), nil); !errors.Is(err, ErrExpired) || n.HasIndex(FieldAttribute(field), "p", time.Now()) {
		t.Errorf("error %v", err)
	}
}

// A value can be as large as an object, and all of them together as large as the store.
func TestLargeValuesAreCountedAndNotKept(t *testing.T) {
	s := New()
	for i := range 20 {
		text := fmt.Sprintf(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"o%d"},"status":{"tags":["a","%d%s"]}}`, i, i, strings.Repeat("x", 1<<20))
		o, err := object.Parse([]byte(text), abi.Kind{})
		if err != nil {
			t.Fatal(err)
		}
		s.Put(o)
	}
	field, _ := fieldpath.ParsePath("status.tags[*]")
	for range 2 {
		n := s.Open()
		got, err := n.Count(FieldAttribute(field), nil)
		if err != nil || !maps.Equal(got.ByValue, map[string]int{"a": 20}) || got.Other != 20 || got.Without != 0 {
			t.Errorf("%d values, %d others, %d without, %v", len(got.ByValue), got.Other, got.Without, err)
		}
		s.Close(n)
		s.build(FieldAttribute(field))
	}
}

// To count leaves packed objects packed: it happens at each scrape.
func BenchmarkCount(b *testing.B) {
	const objects = 100_000
	s := New()
	for i := range objects {
		text := fmt.Sprintf(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"namespace":"n","name":"o%d"},"status":{"phase":"P%d"}}`, i, i%5)
		o, err := object.Parse([]byte(text), abi.Kind{})
		if err != nil {
			b.Fatal(err)
		}
		s.Put(o)
	}
	field, _ := fieldpath.ParsePath("status.phase")
	of := FieldAttribute(field)
	for _, name := range []string{"read", "indexed"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				n := s.Open()
				if c, err := n.Count(of, nil); err != nil || len(c.ByValue) != 5 {
					b.Fatal(c, err)
				}
				s.Close(n)
			}
		})
		s.build(of)
	}
}
