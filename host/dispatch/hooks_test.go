package dispatch

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// noteHooks makes a controller note the calls of hooks of two capabilities, of which others have none.
func (f *fixture) noteHooks() {
	version := func(o *object.Object) string {
		if o == nil {
			return "-"
		}
		return o.ResourceVersion
	}
	hooks := func(name string) Hooks {
		return Hooks{
			Changed: func(rev *Revision, old, updated *object.Object) {
				f.note("%s changed %s %s revision %d", name, version(old), version(updated), rev.Number)
			},
			Ended: func(rev *Revision, run EndedRun) {
				f.note("%s ended %s %s at %t", name, run.Result, version(run.Primary), !run.Started.IsZero())
			},
		}
	}
	f.c.Hooks = []Hooks{{}, hooks("a"), {}, hooks("b")}
}

// expectHooks compares the calls of hooks since the last time, and the keys that were added.
func (f *fixture) expectHooks(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, line := range f.log {
		if strings.HasPrefix(line, "a ") || strings.HasPrefix(line, "b ") || strings.HasPrefix(line, "add ") {
			got = append(got, line)
		}
	}
	if f.log = nil; strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A run of the object may end, and be told to hooks, as soon as its key is in the queue.
func TestHooksAreCalledBeforeTheObjectOfAnEventIsDue(t *testing.T) {
	f := newFixture(t)
	f.noteHooks()
	o := f.put(aWidget)
	updated, err := object.Parse([]byte(strings.NewReplacer(`"generation":1,"resourceVersion":"1"`, `"generation":2,"resourceVersion":"2"`).Replace(aWidget)), abi.Kind{})
	if err != nil {
		t.Fatal(err)
	}
	f.c.Observe(nil, o, true)
	f.expectHooks(t, "a changed - 1 revision 1", "b changed - 1 revision 1", "add ns/w resync")
	f.c.Observe(o, updated, false)
	f.expectHooks(t, "a changed 1 2 revision 1", "b changed 1 2 revision 1", "add ns/w primary")
	f.c.Observe(updated, updated, false)
	f.expectHooks(t, "a changed 2 2 revision 1", "b changed 2 2 revision 1", "add ns/w status")
	f.c.Observe(updated, nil, false)
	f.expectHooks(t, "a changed 2 - revision 1", "b changed 2 - revision 1", "add ns/w primary")
	f.c.ObserveLost(updated)
	f.expectHooks(t, "a changed 2 - revision 1", "b changed 2 - revision 1", "add ns/w primary")
}

func TestHooksAreCalledAtTheEndOfEachRun(t *testing.T) {
	f := newFixture(t)
	f.noteHooks()
	f.put(aWidget)
	f.reconcile = succeed
	f.run(abi.ReasonPrimary)
	written := f.store[widget][testKey].ResourceVersion
	f.expectHooks(t, "a ended success "+written+" at true", "b ended success "+written+" at true")
	f.reconcile = panics
	f.run(abi.ReasonPrimary)
	written = f.store[widget][testKey].ResourceVersion
	f.expectHooks(t, "a ended error "+written+" at true", "b ended error "+written+" at true")
}

func TestATurnOfAnObjectEndsNoRun(t *testing.T) {
	withErrands(t, func(f *errands) {
		f.start()
		turns := f.c.Hooks[1]
		f.noteHooks()
		f.c.Hooks = append(f.c.Hooks, turns)
		f.log = nil
		f.readChanges(gadget)
		f.turn()
		f.expectCalls("reads")
		f.expectHooks(t, "add ns/errand/w read")
	})
}
