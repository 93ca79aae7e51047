package queue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/queue"
)

func TestForget(t *testing.T) {
	t.Run("drops the deadline of an idle key", func(t *testing.T) {
		backsOff(t, func(w *world) {
			w.Forget(key("a"))
			w.expectKnown(0, 0)
			w.advance(time.Hour)
			w.expectLen(0)
		})
	})
	t.Run("drops the deadline that a run in progress sets", func(t *testing.T) {
		backsOff(t, func(w *world) {
			w.add("a", abi.ReasonPrimary)
			w.expectRun("a", abi.ReasonPrimary)
			w.Forget(key("a"))
			w.done("a", after(time.Second))
			w.expectKnown(0, 0)
		})
	})
	t.Run("keeps the Add of an object that was created again", func(t *testing.T) {
		backsOff(t, func(w *world) {
			w.add("a", abi.ReasonPrimary)
			w.expectRun("a", abi.ReasonPrimary)
			w.add("a", abi.ReasonPrimary)
			w.Forget(key("a"))
			w.done("a", after(time.Second))
			w.run("a", after(time.Second), abi.ReasonPrimary)
			w.advance(time.Second)
			w.run("a", outcome.Next{}, abi.ReasonRequeue)
		})
	})
	t.Run("of an unknown key does nothing", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) { w.Forget(key("a")); w.expectKnown(0, 0) })
	})
}

func TestIdleKeysCostNoMemory(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		for i := range 1000 {
			w.add(fmt.Sprint(i), abi.ReasonPrimary, abi.ReasonOwned)
		}
		w.expectKnown(1000, 0)
		for i := range 1000 {
			w.run(fmt.Sprint(i), outcome.Next{}, abi.ReasonPrimary, abi.ReasonOwned)
		}
		w.expectKnown(0, 0)
	})
}

func TestDoneOfAKeyThatIsNotRunningDoesNothing(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.done("never seen", after(time.Second))
		w.add("a", abi.ReasonPrimary)
		w.done("a", after(time.Second))
		w.expectKnown(1, 0)
		w.run("a", outcome.Next{}, abi.ReasonPrimary)
	})
}

func TestShutDown(t *testing.T) {
	t.Run("unblocks every worker, and Next returns no key", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			results := make(chan bool, 4)
			worker := func() { _, shutdown := w.Next(); results <- shutdown }
			for range 3 {
				go worker()
			}
			synctest.Wait()
			w.ShutDown()
			w.add("late", abi.ReasonPrimary)
			go worker()
			for range 4 {
				if !<-results {
					w.Error("Next returned a key")
				}
			}
			w.expectKnown(0, 0)
		})
	})
	t.Run("keys that are due are not returned", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.add("a", abi.ReasonPrimary)
			w.add("b", abi.ReasonPrimary)
			w.ShutDown()
			if item, shutdown := w.Next(); !shutdown {
				w.Errorf("Next returned %v", item)
			}
		})
	})
}

// After the start every object is a key that is due. What that takes must not stay.
func TestKeysThatWaitForNothingTakeNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 10_000
		q := queue.New(queue.Config{})
		defer q.ShutDown()
		for i := range many {
			q.Add(key(fmt.Sprint(i)), queue.Cause{Reason: abi.ReasonOwned}) // has a timer, and is then due
		}
		time.Sleep(time.Second) // fake time
		synctest.Wait()
		if place := q.Place(); place < many {
			t.Fatalf("place for %d keys", place)
		}
		for i := range many {
			next := outcome.Next{}
			if i%100 == 0 {
				next = after(time.Hour)
			}
			item, _ := q.Next()
			q.Done(item.Key, next)
		}
		if keys, deadlines := q.Known(); keys != many/100 || deadlines != many/100 {
			t.Errorf("%d keys with %d deadlines", keys, deadlines)
		}
		if place := q.Place(); place > many/16 {
			t.Errorf("place for %d keys is left", place)
		}
		time.Sleep(time.Hour) // fake time
		synctest.Wait()
		if n := q.Len(); n != many/100 {
			t.Errorf("%d of %d keys are due at their deadlines", n, many/100)
		}
	})
}

func TestNothingIsAddedWhileTheQueueIsIdle(t *testing.T) {
	idle := true
	scenario(t, queue.Config{Idle: func() bool { return idle }}, func(w *world) {
		add := func() {
			for _, reason := range []abi.Reason{abi.ReasonPrimary, abi.ReasonOwned, abi.ReasonResync} {
				w.Add(queue.Key{Name: "a"}, queue.Cause{Reason: reason})
			}
			w.Add(queue.Key{Name: "a"}, queue.Cause{Reason: abi.ReasonStatus, Own: true, Pause: time.Second})
			w.Add(queue.Key{Name: "a"}, queue.Cause{Reason: abi.ReasonRead, Bulk: true})
			w.addSpread([]queue.Key{{Name: "a"}})
		}
		add()
		if n := w.Len(); n != 0 {
			t.Errorf("%d keys are due", n)
		}
		idle = false
		add()
		if n := w.Len(); n != 1 {
			t.Errorf("%d keys are due after that", n)
		}
	})
}
