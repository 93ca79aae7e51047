package dispatch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

func TestTheStateOfACapabilityRunsNothing(t *testing.T) {
	f := newFixture(t)
	before := f.put(aWidget)
	after := patched(t, before, `{"metadata":{"resourceVersion":"9","annotations":{"x.other.thole.dev/known":"1"}}}`)
	f.c.Observe(before, after, false)
	f.c.ObserveOwned(before, after)
	f.c.ObserveRead(testKey, before, after, false)
	f.c.ObserveWatched(&abi.Watch{By: abi.WatchByLabel, Key: "a"}, fieldpath.Path{}, before, after)
	f.expect()
	f.c.ObserveRead(testKey, before, patched(t, after, `{"spec":{"x":2}}`), false)
	f.expect("add ns/w read")
}

func TestTheStateOfACapabilityBesideAStatusDoesNotEndABackoff(t *testing.T) {
	f := newFixture(t)
	before := f.put(aWidget)
	f.c.Observe(before, patched(t, before, `{"metadata":{"resourceVersion":"9","annotations":{"x.other.thole.dev/known":"1"}},"status":{"a":1}}`), false)
	f.expect("add ns/w status")
}

// Objects are compared once for each event, however many keys have read them.
func TestTheStateOfACapabilityCostsEachReaderNothing(t *testing.T) {
	f := newFixture(t)
	before := patched(t, f.put(aWidget), `{"spec":{"text":"`+strings.Repeat("x", 1<<20)+`"}}`)
	written := patched(t, before, `{"metadata":{"resourceVersion":"9","annotations":{"x.other.thole.dev/known":"1"}}}`)
	edited := patched(t, written, `{"metadata":{"resourceVersion":"10"},"spec":{"y":1}}`)
	for i, event := range [][2]*object.Object{{before, written}, {written, edited}} {
		read := func() { f.c.ObserveRead(testKey, event[0], event[1], false) }
		if allocations := testing.AllocsPerRun(100, read); allocations > 20 {
			t.Errorf("event %d: %v allocations for each reader", i, allocations)
		}
		if added := len(f.log) > 0; added != (i == 1) {
			t.Errorf("event %d makes a reader due: %t", i, added)
		}
	}
}

// BenchmarkReaders has what an event costs for each key that has read the object, of 1 MiB or
// with 10,000 annotations.
func BenchmarkReaders(b *testing.B) {
	f := newFixture(&testing.T{})
	many := &strings.Builder{}
	for i := range 10_000 {
		fmt.Fprintf(many, `,"example.dev/%d":"x"`, i)
	}
	of := func(annotations, spec string) *object.Object {
		return patched(f.t, f.put(aWidget), fmt.Sprintf(`{"metadata":{"annotations":{%s}},"spec":{%s}}`, annotations, spec))
	}
	large := `"a":[` + strings.Repeat(`{"a":1},`, 128<<10) + `1]`
	for name, event := range map[string][2]*object.Object{
		"plain":       {of("", ""), of("", `"y":1`)},
		"state":       {of("", large), of(`"x.other.thole.dev/known":"1"`, large)},
		"annotations": {of(many.String()[1:], ""), of(many.String()[1:], `"y":1`)},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f.c.ObserveRead(testKey, event[0], event[1], false)
			}
		})
	}
}
