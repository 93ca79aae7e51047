package effect

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestWritesToOneObjectWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turns
		one, other := objectID{1}, objectID{1, 2}
		end, _ := turns.take(t.Context(), one)
		endOther, _ := turns.take(t.Context(), other) // does not wait
		taken := make(chan time.Duration)
		began := time.Now()
		take := func(ctx context.Context) {
			end, err := turns.take(ctx, one)
			if err == nil {
				defer end()
			}
			taken <- time.Since(began)
		}
		go take(t.Context())
		synctest.Wait()
		select {
		case <-taken:
			t.Error("two have the turn")
		default:
		}
		end()
		if after := <-taken; after != 0 {
			t.Errorf("the next one had its turn after %s", after)
		}
		end, _ = turns.take(t.Context(), one)
		go take(t.Context())
		if after := <-taken; after != longestTurn {
			t.Errorf("one that waits in vain went on after %s", after)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := turns.take(ended, one); err == nil {
			t.Error("a call that has ended has the turn")
		}
		end()
		endOther()
		synctest.Wait()
		if len(turns.of) != 0 {
			t.Errorf("%d turns are left", len(turns.of))
		}
	})
}
