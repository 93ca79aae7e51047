package native

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// testTurn waits in the background, and then runs until it is ended.
type testTurn struct {
	*turn
	err error        // of the wait
	why func() error // why the attempt was ended, nil if it was not; the function is nil unless it runs
}

// begin adds a turn and returns when it waits or runs.
func begin(t *testing.T, q *queue, size int64, attempt int) *testTurn {
	t.Helper()
	tt := &testTurn{turn: &turn{queue: q, size: size, attempt: attempt}}
	go tt.run(t.Context())
	synctest.Wait()
	return tt
}

func (tt *testTurn) run(ctx context.Context) {
	if tt.err = tt.queue.wait(ctx, tt.turn); tt.err == nil {
		ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
		tt.why = func() error { return context.Cause(ctx) }
		tt.queue.setStop(tt.turn, stop)
	}
}

func (tt *testTurn) runs() bool { return tt.why != nil && tt.why() == nil }

// end ends the attempt, and returns whether another one follows.
func (tt *testTurn) end() (again bool) {
	again = tt.queue.end(tt.turn, tt.why())
	tt.why = nil
	synctest.Wait()
	return again
}

func TestSmallModulesThatWereNotTriedAreNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, 1<<30)
		running := begin(t, q, 50, 0)
		order := []*testTurn{begin(t, q, 30, 2), begin(t, q, 20, 1), begin(t, q, 40, 0), begin(t, q, 10, 0)}
		for i, next := range slices.Backward(order) {
			if next.runs() {
				t.Fatalf("%d runs before its turn", i)
			}
			if running.end(); !next.runs() {
				t.Fatalf("%d does not run in its turn", i)
			}
			running = next
		}
		running.end()
	})
}

// TestOverdueAttemptGivesWay as soon as another module waits, and waits behind
// it.
func TestOverdueAttemptGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, 1<<30)
		slow := begin(t, q, 10, 0)
		q.setOverdue(slow.turn)
		if !slow.runs() {
			t.Fatal("it ends although nobody waits")
		}
		honest := begin(t, q, 1<<20, 0)
		if slow.runs() || honest.runs() {
			t.Fatal("the slow one does not end, or both run")
		}
		if again := slow.end(); !again || slow.attempt != 1 || !honest.runs() {
			t.Errorf("again = %t at attempt %d", again, slow.attempt)
		}
		go slow.run(t.Context())
		synctest.Wait()
		honest.end()
		if !slow.runs() {
			t.Error("there is no further attempt")
		}
		slow.end()
	})
}

// TestAttemptWithinItsTimeIsNotEnded unless it is a further one, and an untried
// module waits. It then keeps its place.
func TestAttemptWithinItsTimeIsNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(2, 4<<30)
		first, third, second := begin(t, q, 10, 0), begin(t, q, 10, 2), begin(t, q, 10, 1)
		if !first.runs() || !third.runs() || second.runs() {
			t.Fatal("not the first two run, or they have ended for a second attempt")
		}
		untried := begin(t, q, 10, 0)
		if !first.runs() || third.runs() {
			t.Fatal("not the further attempt has ended")
		}
		if again := third.end(); !again || third.attempt != 2 || !untried.runs() || second.runs() {
			t.Errorf("again = %t, attempt %d", again, third.attempt)
		}
		for _, tt := range []*testTurn{first, second, untried} {
			tt.end()
		}
	})
}

// TestAttemptsFitTheMemory: first attempts need little, further ones run alone in
// a small container.
// TestWatchEndsWithItsAttempt, also while it states that the attempt is overdue: the next
// one would be for it.
func TestWatchEndsWithItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const noProcess = 1<<22 + 1 // more than the kernel gives
		q := newQueue(1, 0)
		attempt := &turn{queue: q}
		end := attempt.watch(t.Context(), noProcess, time.Minute)
		time.Sleep(patience * minTime) // fake time
		q.mu.Lock()
		time.Sleep(pollTime) // fake time
		ended := make(chan struct{})
		go func() {
			end()
			close(ended)
		}()
		early := false
		for range 1000 {
			runtime.Gosched()
			select {
			case <-ended:
				early = true
			default:
			}
		}
		q.mu.Unlock()
		<-ended
		if early || !attempt.overdue {
			t.Errorf("the watch was ended while it waited for the queue: %t, the attempt is overdue: %t", early, attempt.overdue)
		}
	})
}

func TestAttemptsFitTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(8, 2*firstMemory)
		a, b, c := begin(t, q, 1, 0), begin(t, q, 1, 0), begin(t, q, 1, 0)
		large := begin(t, q, 1, 1)
		if !a.runs() || !b.runs() || c.runs() || large.runs() {
			t.Fatal("not two of four run")
		}
		a.end()
		b.end()
		if !c.runs() || large.runs() {
			t.Fatal("the further attempt does not wait for all memory")
		}
		c.end()
		if !large.runs() || large.memory != 2*firstMemory {
			t.Fatalf("it has %d bytes", large.memory)
		}
		if again := q.end(large.turn, errUnfinished); again {
			t.Error("an attempt with all the memory is repeated")
		}
	})
}

// TestAttemptsHaveMoreTimeEach, by the size of the file.
func TestAttemptsHaveMoreTimeEach(t *testing.T) {
	for _, c := range []struct {
		size    int64
		attempt int
		want    time.Duration
	}{
		{1 << 10, 0, minTime},
		{400_000, 0, 600 * time.Millisecond},
		{16 << 20, 0, time.Second},
		{16 << 20, 2, 16 * time.Second},
	} {
		if got := (&turn{size: c.size, attempt: c.attempt}).time(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestContextThatEndsAsAnAttemptGivesWayIsTheError: there is no further attempt, whose
// turn the attempt could have given up.
func TestContextThatEndsAsAnAttemptGivesWayIsTheError(t *testing.T) {
	s := open(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	job := jobOf("key", constant(1), "")
	job.Read = func() ([]byte, error) {
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		s.queue.running[0].stop(errGaveWay)
		cancel()
		return nil, nil
	}
	if _, _, err := s.Compile(ctx, job); !errors.Is(err, context.Canceled) || errors.Is(err, errGaveWay) {
		t.Errorf("error = %v", err)
	}
}

func TestContextEndsTheWaitForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, 1<<30)
		running := begin(t, q, 1, 0)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := &testTurn{turn: &turn{queue: q}}
		go waiting.run(ctx)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !errors.Is(waiting.err, context.Canceled) || !strings.Contains(waiting.err.Error(), "wait for other modules") || len(q.waiting) != 0 {
			t.Errorf("error = %v, %d wait", waiting.err, len(q.waiting))
		}
		running.end()
	})
}
