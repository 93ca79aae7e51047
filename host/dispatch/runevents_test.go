package dispatch

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/sandbox"
)

// reported returns the events of runs and of their requests, each with the time from the begin of the test.
func (f *fixture) reported(began time.Time) (all []string) {
	text := func(name string, run events.Run, since time.Time, took time.Duration, rest any) {
		all = append(all, fmt.Sprintf("%s %s/%s %s %d %t since %s for %s %v", name, run.Plugin, run.Controller, run.Object, run.Revision, run.ID != "", since.Sub(began), took, rest))
	}
	for _, event := range f.events {
		switch e := event.(type) {
		case events.RunPostponed:
			text("postponed", e.Run, e.Since, e.Duration, []any{e.Resumed, e.For})
		case events.RunEnded:
			text("ended", e.Run, e.Since, e.Duration, []any{e.Resumed, e.Result})
		case events.TurnEnded:
			text("turn ended", e.Run, e.Since, e.Duration, e.What)
		}
	}
	return all
}

func (f *fixture) expectReported(began time.Time, want ...string) {
	f.t.Helper()
	if got := f.reported(began); !slices.Equal(got, want) {
		f.t.Errorf("got  %q\nwant %q", got, want)
	}
	f.events = nil
}

func TestPostponedRunIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, began := newFixture(t), time.Now()
		f.put(aWidget)
		f.reconcile, f.fail["apply"] = appliesGadget, busy("apply", 3*time.Second)
		f.run()
		time.Sleep(3 * time.Second) // fake time
		f.run(abi.ReasonRetry)
		f.expectReported(began, "postponed p/c ns/w 1 true since 0s for 0s [false 3s]", "postponed p/c ns/w 1 true since 3s for 0s [true 3s]")
		delete(f.fail, "apply")
		time.Sleep(3 * time.Second) // fake time
		f.run(abi.ReasonRetry)
		f.run()
		f.expectReported(began, "ended p/c ns/w 1 true since 6s for 0s [true success]", "ended p/c ns/w 1 true since 6s for 0s [false success]")
	})
}

func TestATurnOfAnObjectIsReported(t *testing.T) {
	withErrands(t, func(f *errands) {
		began := time.Now()
		f.start()
		f.events = nil
		f.answer = func(context.Context, sandbox.Call) (sandbox.Return, error) {
			pass(time.Second)
			return sandbox.Return{}, nil
		}
		f.readChanges(gadget)
		f.turn()
		f.expectReported(began, "turn ended p/c ns/w 1 true since 0s for 1s errand")
	})
}
