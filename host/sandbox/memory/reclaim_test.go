package memory

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeCall is a call that frees its memory a while after it is ended.
type fakeCall struct {
	ctx   context.Context //nolint:containedctx // of the test
	m     *Linear
	after time.Duration
	ended error
	free  sync.Once
}

func (c *fakeCall) Wait(released <-chan struct{}) error {
	select {
	case <-released:
	case <-time.After(time.Millisecond):
	case <-c.ctx.Done():
	}
	return c.ctx.Err()
}

func (c *fakeCall) End(reason error) {
	c.ended = reason
	time.AfterFunc(c.after, func() {
		c.free.Do(func() {
			c.m.EndCall()
			c.m.Free()
		})
	})
}

// running returns a memory of that size in a call.
func running(t *testing.T, a *Account, size uint64) *fakeCall {
	t.Helper()
	c := &fakeCall{ctx: t.Context(), after: 2 * time.Millisecond}
	m, err := a.Linear(0, 1<<20, 0, c)
	if err != nil {
		t.Fatal(err)
	}
	if c.m = m; m.Reallocate(size) == nil {
		t.Fatal(m.Refused())
	}
	return c
}

// TestCallsAreEndedForAnEvenShareOnly the largest of the guest that has most beyond it,
// no more than needed, and only after those that end soon have.
func TestCallsAreEndedForAnEvenShareOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 4 << 20
		b := NewBudget(limit, noneIdle)
		defer b.Close()
		hog, larger, modest := b.Account(), b.Account(), b.Account()
		calls := []*fakeCall{running(t, hog, 1<<20), running(t, larger, 512<<10), running(t, larger, 1<<20), running(t, larger, 512<<10)}
		began := time.Now()
		got := running(t, modest, 1<<20)
		if took := time.Since(began); took != 0 {
			t.Errorf("what is free took %s", took)
		}
		if got.m.Reallocate(1<<20+300<<10) != nil {
			t.Error("more than the limit")
		}
		got.m.limit = limit
		if got.m.Reallocate(1<<20+300<<10) == nil {
			t.Fatalf("an even share was refused: %v", got.m.Refused())
		}
		if took := time.Since(began); took < grace || took > 2*grace {
			t.Errorf("an even share took %s", took)
		}
		for i, want := range []bool{false, false, true, false} {
			if ended := calls[i].ended; (ended != nil) != want || want && (!errors.Is(ended, ErrExhausted) || !ExceedsEvenShare(ended)) {
				t.Errorf("call %d was ended: %v, want %t", i, ended, want)
			}
		}
		if got.m.Reallocate(1<<20+700<<10) != nil || !ExceedsEvenShare(got.m.Refused()) {
			t.Errorf("more than an even share: %v", got.m.Refused())
		}
		for _, c := range append(calls, got) {
			c.End(nil)
		}
		synctest.Wait()
		time.Sleep(time.Second) // fake time
		if s := b.Stats(); s.UsedBytes != 0 || b.owed != 0 || b.reclaiming != 0 {
			t.Errorf("stats = %+v, %d owed, %d being reclaimed", s, b.owed, b.reclaiming)
		}
	})
}

// TestMemoryThatIsOwedIsKept from guests with more than an even share.
func TestMemoryThatIsOwedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(800, noneIdle)
		hog, modest := b.Account(), b.Account()
		if err := hog.Reserve(600, nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan error)
		go func() { refused <- modest.Reserve(400, &fakeCall{ctx: ctx}) }()
		synctest.Wait()
		hog.Release(50)
		if hog.Fits(1) {
			t.Error("the hog gets what was released while another waits for its share")
		}
		if err := hog.Reserve(0, nil); err != nil {
			t.Errorf("nothing was refused: %v", err)
		}
		cancel()
		if err := <-refused; !errors.Is(err, ErrExhausted) || ExceedsEvenShare(err) {
			t.Errorf("a call that ends while it waits gets %v", err)
		}
		if !hog.Fits(100) {
			t.Error("memory is still kept for a call that has ended")
		}
	})
}

// TestWaitForAnEvenShareEnds if nobody gives back what is missing.
func TestWaitForAnEvenShareEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(800, noneIdle)
		hog, modest := b.Account(), b.Account()
		if err := hog.Reserve(700, nil); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := modest.Reserve(400, &fakeCall{ctx: t.Context()}); !errors.Is(err, ErrExhausted) || ExceedsEvenShare(err) {
			t.Errorf("error = %v", err)
		}
		if took := time.Since(began); took < longestWait || took > longestWait+time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// TestImagesHaveHalfOfTheBudget, so that there is a share of the rest.
func TestImagesHaveHalfOfTheBudget(t *testing.T) {
	b := NewBudget(800, noneIdle)
	one, other := b.Account(), b.Account()
	if err := errors.Join(one.ReserveImage(300), other.ReserveImage(100)); err != nil {
		t.Fatal(err)
	}
	if err := other.ReserveImage(1); !errors.Is(err, ErrExhausted) {
		t.Errorf("more than half: %v", err)
	}
	if err := one.Reserve(200, nil); err != nil || one.ExceedsEvenShare() {
		t.Errorf("half of what the images leave: %v, exceeds: %t", err, one.ExceedsEvenShare())
	}
	if err := other.Reserve(200, nil); err != nil {
		t.Errorf("the other half: %v", err)
	}
	one.ReleaseImage()
	if err := other.ReserveImage(200); err != nil {
		t.Errorf("after another image is gone: %v", err)
	}
}
