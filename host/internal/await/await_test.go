package await

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPollAsksUntilYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, start := 0, time.Now()
		Within(t, time.Minute, "three questions", func() bool { asked++; return asked == 3 })
		if passed := time.Since(start); passed != 20*time.Millisecond {
			t.Errorf("three questions took %s", passed)
		}
	})
}

func TestPollGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, start := 0, time.Now()
		no := errors.New("no")
		err := Success(func() error { asked++; return no })
		if passed := time.Since(start); !errors.Is(err, no) || passed < Limit || passed > Limit+time.Second {
			t.Errorf("gave up after %s: %v", passed, err)
		}
		if asked < 240 || asked > 400 {
			t.Errorf("asked %d times, want about twice a second", asked)
		}
	})
}

// TestOneThatWasLateIsAskedOnceMore: a machine that stood still for nearly all
// of the time gets another chance.
func TestOneThatWasLateIsAskedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		Until(t, "the second answer", func() bool {
			asked++
			if asked == 1 {
				time.Sleep(Limit - time.Millisecond) // fake time
			}
			return asked == 2
		})
	})
}
