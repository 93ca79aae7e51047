package queue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/queue"
)

func TestForget(t *testing.T) {
	t.Run("drops the deadline", func(t *testing.T) {
		backsOff(t, func(w *world) {
			w.Forget(key("a"))
			w.expectKnown(0, 0)
			w.advance(time.Hour)
			w.expectLen(0)
		})
	})
	t.Run("drops the deadline that the run sets", func(t *testing.T) {
		backsOff(t, func(w *world) {
			w.trigger("a", abi.ReasonPrimary)
			w.expectRun("a", abi.ReasonPrimary)
			w.Forget(key("a"))
			w.settle("a", queue.Next{After: time.Second})
			w.expectKnown(0, 0)
		})
	})
	t.Run("keeps the object's return", func(t *testing.T) {
		backsOff(t, func(w *world) {
			w.trigger("a", abi.ReasonPrimary)
			w.expectRun("a", abi.ReasonPrimary)
			w.trigger("a", abi.ReasonPrimary)
			w.Forget(key("a"))
			w.settle("a", queue.Next{After: time.Second})
			w.run("a", queue.Next{After: time.Second}, abi.ReasonPrimary)
			w.advance(time.Second)
			w.run("a", queue.Next{}, abi.ReasonRequeue)
		})
	})
	t.Run("of an unknown key does nothing", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) { w.Forget(key("a")); w.expectKnown(0, 0) })
	})
}

func TestIdleKeysCostNothing(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		for i := range 1000 {
			w.trigger(fmt.Sprint(i), abi.ReasonPrimary, abi.ReasonOwned)
		}
		w.expectKnown(1000, 0)
		for i := range 1000 {
			w.run(fmt.Sprint(i), queue.Next{}, abi.ReasonPrimary, abi.ReasonOwned)
		}
		w.expectKnown(0, 0)
	})
}

func TestSettleWithoutRunDoesNothing(t *testing.T) {
	scenario(t, queue.Config{}, func(w *world) {
		w.settle("never seen", queue.Next{After: time.Second})
		w.trigger("a", abi.ReasonPrimary)
		w.settle("a", queue.Next{After: time.Second})
		w.expectKnown(1, 0)
		w.run("a", queue.Next{}, abi.ReasonPrimary)
	})
}

func TestShutDown(t *testing.T) {
	t.Run("wakes every worker and hands out nothing more", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			results := make(chan bool, 4)
			worker := func() { _, shutdown := w.Next(); results <- shutdown }
			for range 3 {
				go worker()
			}
			synctest.Wait()
			w.ShutDown()
			w.trigger("late", abi.ReasonPrimary)
			go worker()
			for range 4 {
				if !<-results {
					w.Error("a key was handed out")
				}
			}
			w.expectKnown(0, 0)
		})
	})
	t.Run("leaves what is due", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.trigger("a", abi.ReasonPrimary)
			w.trigger("b", abi.ReasonPrimary)
			w.ShutDown()
			if item, shutdown := w.Next(); !shutdown {
				w.Errorf("handed out %v", item)
			}
		})
	})
	t.Run("with drain waits for what runs", func(t *testing.T) {
		scenario(t, queue.Config{}, func(w *world) {
			w.trigger("a", abi.ReasonPrimary)
			w.trigger("b", abi.ReasonPrimary)
			w.expectRun("a", abi.ReasonPrimary)
			drained := make(chan struct{})
			go func() { w.ShutDownWithDrain(); close(drained) }()
			synctest.Wait()
			select {
			case <-drained:
				w.Fatal("did not wait")
			default:
			}
			w.settle("a", queue.Next{After: time.Second})
			<-drained
		})
	})
}
