package await

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntilReturnsWhenItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, start := 0, time.Now()
		Within(t, time.Minute, "the third call", func() bool { calls++; return calls == 3 })
		if passed := time.Since(start); passed != 21*time.Millisecond {
			t.Errorf("three calls took %s, want an interval of 10 ms and one of 11 ms", passed)
		}
	})
}

func TestSuccessReturnsTheLastErrorAfterTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, start := 0, time.Now()
		failure := errors.New("no")
		err := Success(func() error { calls++; return failure })
		if passed := time.Since(start); !errors.Is(err, failure) || passed < Limit || passed > Limit+time.Second {
			t.Errorf("returned after %s: %v", passed, err)
		}
		if calls < 600 || calls > 800 {
			t.Errorf("called %d times, want about twice a second", calls)
		}
	})
}

// The machine is suspended for nearly all of the time.
func TestDoneIsCalledOnceMoreAfterTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		Until(t, "the second call", func() bool {
			calls++
			if calls == 1 {
				time.Sleep(Limit - time.Millisecond) // fake time
			}
			return calls == 2
		})
	})
}
