package dispatch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// TestTheBarrierStaysUntilTheCacheHasCaughtUp: an object that could not be read
// past the cache is not read from it after all, and once it was, no later run
// goes back in time.
func TestTheBarrierStaysUntilTheCacheHasCaughtUp(t *testing.T) {
	b := newBench(t)
	b.reconcile = func(context.Context, Call) (Return, error) {
		return Return{Code: abi.CodeWaiting}, nil
	}
	stale := b.put(aWidget)
	b.run() // writes the status
	b.lagging, b.store[widget][testKey] = true, stale

	b.request, b.liveErr = nil, errors.New("no answer")
	b.run()
	if b.request != nil {
		t.Fatalf("the guest was given %s", b.request.Object)
	}
	b.run()
	if b.request != nil {
		t.Fatalf("after a read that failed the guest was given %s", b.request.Object)
	}

	b.liveErr = nil
	b.live = patched(t, stale, `{"metadata":{"resourceVersion":"300"},"spec":{"x":9}}`)
	b.fail["status"] = &Failure{} // so that the run leaves nothing to wait for
	for range 2 {
		b.run()
		if !strings.Contains(string(b.request.Object), `"x":9`) {
			t.Errorf("the guest was given %s", b.request.Object)
		}
	}

	b.lagging, b.store[widget][testKey] = false, b.live
	b.log = nil
	b.run()
	b.run()
	if n := strings.Count(strings.Join(b.log, "\n"), "cache shows status 101"); n != 1 {
		t.Errorf("what the cache shows was waited for %d times: %q", n, b.log)
	}
}

// TestAnotherKindThatLagsCostsOneWait: its informer may have lost its right.
func TestAnotherKindThatLagsCostsOneWait(t *testing.T) {
	b := newBench(t)
	b.live = b.put(aWidget)
	b.reconcile = func(context.Context, Call) (Return, error) {
		return returns(&abi.Result{Apply: []abi.Apply{{Object: []byte(`{"apiVersion":"v1","kind":"Gadget","metadata":{"name":"g"}}`)}}})
	}
	b.fail["status"] = &Failure{}
	b.run()
	b.reconcile = fine
	b.lagging, b.log = true, nil
	b.run()
	b.run()
	if n := strings.Count(strings.Join(b.log, "\n"), "live read"); n != 1 {
		t.Errorf("%d reads past the cache: %q", n, b.log)
	}
}

// TestWhatIsWaitedForIsBounded: one write of a kind stands for those before.
func TestWhatIsWaitedForIsBounded(t *testing.T) {
	var s keyState
	write := func(kind abi.Kind, version string) Write { return Write{Kind: kind, ResourceVersion: version} }
	s.await([]Write{write(widget, "1"), write(gadget, "2"), write(gadget, "")})
	s.await([]Write{write(gadget, "")})
	s.await([]Write{write(widget, "3")})
	if want := []Write{write(gadget, "2"), write(widget, "3")}; !slices.Equal(s.writes, want) {
		t.Errorf("it waits for %v, want %v", s.writes, want)
	}
}

// TestAReadThatIsNotAnsweredEnds: else a server that hangs would take the
// workers one by one.
func TestAReadThatIsNotAnsweredEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.c.Cache = silent{testCache{b}}
		b.put(aWidget)
		b.run()
		b.lagging = true
		b.run()
		if last := b.settled[len(b.settled)-1]; last.Reason != abi.ReasonRetry {
			t.Errorf("settled with %+v", last)
		}
	})
}

// silent is a cache whose API server does not answer.
type silent struct{ testCache }

func (silent) Live(ctx context.Context, _ object.Key) (*object.Object, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
