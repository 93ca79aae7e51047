package cache

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

func partOf(t *testing.T, fields ...string) fieldpath.Set {
	t.Helper()
	set, err := fieldpath.Parse(fields)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestAChangeOfWhatWasNotReadWakesNobody reads the labels of an object, alone and in a
// list by a field.
func TestAChangeOfWhatWasNotReadWakesNobody(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x", `"labels":{"app":"web"}`, `"generation":1`)
	c, s := edgeCache(t, p)
	generation, err := fieldpath.ParseSelector("metadata.generation=1")
	if err != nil {
		t.Fatal(err)
	}
	one := begin(c, Owner{Key: object.Key{Name: "one"}}, &OwnWrites{})
	if o, err := one.Get(widget, object.Key{Namespace: "a", Name: "x"}, partOf(t, "/metadata/labels")); o == nil || err != nil {
		t.Fatal(o, err)
	}
	one.Commit()
	list := begin(c, Owner{Key: object.Key{Name: "list"}}, &OwnWrites{})
	found, err := list.List(Reading{Kind: widget, Namespaces: []string{"a"}, Fields: generation, Part: partOf(t, "/metadata/labels")})
	if err != nil || names(found.Items) != "a/x" {
		t.Fatal(names(found.Items), err)
	}
	list.Commit()
	p.put("a", "x", `"labels":{"app":"web"}`, `"generation":1`, `"annotations":{"a":"b"}`)
	s.expect(p)
	p.put("a", "x", `"labels":{"app":"db"}`, `"generation":1`)
	s.expect(p, "list by a/x", "one by a/x")
	p.put("a", "x", `"labels":{"app":"db"}`, `"generation":2`) // leaves the list
	s.expect(p, "list by a/x")
	p.put("a", "y", `"generation":1`)
	s.expect(p, "list by a/y")
	p.remove("a", "x")
	s.expect(p, "one by a/x")
}

// TestALateReadOfAPartIsComparedInThatPart changes an object after the run has begun to
// read its kind.
func TestALateReadOfAPartIsComparedInThatPart(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x", `"labels":{"app":"web"}`)
	c, s := edgeCache(t, p)
	i := acquire(t, c)
	run := begin(c, me, &OwnWrites{})
	defer run.Abandon()
	if _, err := run.Get(widget, object.Key{Namespace: "a", Name: "other"}, whole); err != nil {
		t.Fatal(err)
	}
	if err := waitReached(within(t), i, p.put("a", "x", `"labels":{"app":"web"}`, `"generation":2`)); err != nil {
		t.Fatal(err)
	}
	s.expect(p)
	for field, woken := range map[string]int{"/metadata/labels": 0, "/metadata/generation": 2} {
		part := partOf(t, field)
		if _, err := run.Get(widget, object.Key{Namespace: "a", Name: "x"}, part); err != nil {
			t.Fatal(err)
		}
		if _, err := run.List(Reading{Kind: widget, Namespaces: []string{"a"}, Part: part}); err != nil {
			t.Fatal(err)
		}
		for range woken {
			receive(t, s.calls)
		}
		if len(s.calls) > 0 {
			t.Errorf("%s: woken once too often", field)
		}
	}
}

// The part of an object is made twice: for its size, and for the reply.
func TestPartsOfListsArePaid(t *testing.T) {
	p := newPeer(t)
	p.put("a", "x", `"annotations":{"large":"`+strings.Repeat("x", 100<<10)+`"}`)
	c, _ := edgeCache(t, p)
	run := begin(c, me, &OwnWrites{})
	defer run.Abandon()
	cost := func(part fieldpath.Set) (total int) {
		t.Helper()
		if _, err := run.List(Reading{Kind: widget, Namespaces: []string{"a"}, Part: part, Look: func(cost int) { total += cost }}); err != nil {
			t.Fatal(err)
		}
		return total
	}
	if all, some := cost(whole), cost(partOf(t, "/metadata/labels")); some-all < 2*(100<<10)/256 {
		t.Errorf("%d for a part of a large object, %d for all of it", some, all)
	}
}
