package deadline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDeadlineIsTheFirstToPass: its own, which a pause moves, or that of the context around it.
func TestDeadlineIsTheFirstToPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		ctx, end := With(outer, time.Second)
		defer end()
		for _, want := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != want {
				t.Errorf("the deadline is in %s, %t, want %s", time.Until(at), ok, want)
			}
			_ = Pause(ctx, func(context.Context) (time.Duration, error) { return time.Second, nil }) // as if
		}
	})
}

// TestPauseMovesTheDeadline by the time waited, and time alone does not.
func TestPauseMovesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := With(t.Context(), time.Second)
		defer cancel()
		wait := func(context.Context) (time.Duration, error) {
			time.Sleep(5 * time.Second) // fake time
			return 5 * time.Second, nil
		}
		time.Sleep(400 * time.Millisecond) // fake time
		if err := Pause(ctx, wait); err != nil || ctx.Err() != nil {
			t.Fatalf("after a wait: %v, %v", err, ctx.Err())
		}
		time.Sleep(500 * time.Millisecond) // fake time
		if ctx.Err() != nil {
			t.Fatalf("before the deadline: %v", context.Cause(ctx))
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), ErrPassed) {
			t.Errorf("cause = %v", context.Cause(ctx))
		}
		if at := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); at != 6*time.Second {
			t.Errorf("the deadline passed after %s", at)
		}
		if err := Pause(ctx, wait); !errors.Is(err, ErrPassed) {
			t.Errorf("a wait after the deadline: %v", err)
		}
	})
}

// TestDeadlineThatPassesDuringAPause ends the context unless wait returns that it
// waited for long enough.
func TestDeadlineThatPassesDuringAPause(t *testing.T) {
	for name, c := range map[string]struct {
		waited time.Duration
		want   error
	}{
		"all of the time was waited":        {2 * time.Second, nil},
		"none of the time was waited":       {0, ErrPassed},
		"too little of the time was waited": {500 * time.Millisecond, ErrPassed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := With(t.Context(), time.Second)
				defer cancel()
				err := Pause(ctx, func(inner context.Context) (time.Duration, error) {
					time.Sleep(2 * time.Second) // fake time
					return c.waited, inner.Err()
				})
				if !errors.Is(err, c.want) || !errors.Is(context.Cause(ctx), c.want) {
					t.Errorf("error = %v, cause %v, want %v", err, context.Cause(ctx), c.want)
				}
			})
		})
	}
}

// TestOuterContextEndsAPause with its cause.
func TestOuterContextEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, end := context.WithCancelCause(t.Context())
		ctx, cancel := With(outer, time.Hour)
		defer cancel()
		gone := errors.New("gone")
		go func() {
			time.Sleep(time.Second) // fake time
			end(gone)
		}()
		err := Pause(ctx, func(inner context.Context) (time.Duration, error) {
			<-inner.Done()
			return time.Second, context.Cause(inner)
		})
		if !errors.Is(err, gone) || !errors.Is(context.Cause(ctx), gone) {
			t.Errorf("error = %v, cause %v", err, context.Cause(ctx))
		}
	})
}

func TestPauseWithoutADeadlineOnlyWaits(t *testing.T) {
	want := errors.New("of the wait")
	if err := Pause(t.Context(), func(context.Context) (time.Duration, error) { return 0, want }); !errors.Is(err, want) {
		t.Errorf("error = %v", err)
	}
}
