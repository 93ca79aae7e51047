package cache

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
)

// Otherwise each run would keep what it has read until very much of it is replaced.
func TestARunThatHasEndedKeepsNoObjectsInMemory(t *testing.T) {
	const count, size = 20, 1 << 20
	for name, read := range map[string]func(*Run, *store){
		"read once": func(*Run, *store) {},
		"compared with the present state": func(run *Run, s *store) {
			s.set(t, widgetOf(t, "late", "3", "changed"))
			if _, err := run.List(widgets("", nil)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		c := open(t, newPeer(t), Config{})
		s := acquire(t, c).parts[0].store
		for i := range count {
			s.set(t, widgetOf(t, fmt.Sprint(i), "2", strings.Repeat("x", size)))
		}
		run := begin(c, me, &OwnWrites{})
		if _, err := run.List(widgets("", nil)); err != nil {
			t.Fatal(err)
		}
		read(run, s)
		run.Commit()
		full := heap()
		for i := range count {
			s.set(t, widgetOf(t, fmt.Sprint(i), "4", "small"))
		}
		if !await.Poll(await.Limit, func() bool { return heap()+count*size*3/4 < full }) {
			t.Errorf("%s: of %d MiB that were replaced, %d are freed", name, count, (int(full)-int(heap()))>>20)
		}
	}
}

// set puts an object into the store, as an event of the API server does.
func (s *store) set(t *testing.T, o *object.Object) {
	t.Helper()
	if err := s.Update(o); err != nil {
		t.Fatal(err)
	}
}

// The run has seen that there is too much, and has no edge yet when there is nothing any
// more.
func TestAListThatWasTooLargeIsReadAgainWhenThereIsNothing(t *testing.T) {
	woken := make(chan Owner, 10)
	c := open(t, newPeer(t), Config{}, Hooks{Wake: func(o Owner, _ Event, _ bool) { woken <- o }})
	i := acquire(t, c)
	s, o := i.parts[0].store, widgetOf(t, "a", "2", "x")
	s.set(t, o)
	events := record(t, i)
	run := begin(c, me, &OwnWrites{})
	if _, err := run.Get(widget, object.Key{Name: "other"}, whole); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(o); err != nil {
		t.Fatal(err)
	}
	events.expect("initial a", "delete a")
	l := widgets("", nil)
	l.MaxBytes = 1
	if _, err := run.List(l); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	run.Commit()
	if len(woken) != 1 {
		t.Errorf("woken %d times", len(woken))
	}
}

// The timer of an idle informer may have ended twice when it was used in between.
func TestAnInformerThatWasRetiredDoesNotRetireAnotherOne(t *testing.T) {
	c := open(t, newPeer(t), Config{})
	first := acquire(t, c)
	former := first.parts[0].informer
	first.Release()
	c.retire(former)
	second := acquire(t, c)
	second.Release()
	c.retire(former)
	third, err := c.Acquire(within(t), scope.All(widget))
	if err != nil || !third.IsServedAs(second) {
		t.Errorf("another informer follows the same, %v", err)
	}
}
