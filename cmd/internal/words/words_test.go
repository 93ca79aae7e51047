package words

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "1 ms", 1499 * time.Microsecond: "1 ms", 999 * time.Millisecond: "999 ms",
		1500 * time.Millisecond: "1.5 s", 12400 * time.Millisecond: "12 s", 61 * time.Second: "1m1s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		logged string
		run    Run
		want   string
	}{
		{Reconciled, Run{Object: "default/web", Result: "success", Writes: 3, Duration: "22.867ms"}, "default/web: success, 3 writes, 23 ms"},
		{Reconciled, Run{Object: "web", Result: "requeue_after", Duration: "1s", Next: "1m30s"}, "web: requeue after, nothing to write, 1.0 s, again in 1m30s"},
		{ReconcileWaits, Run{Object: "web", Result: "requeue_after", Writes: 1, Reason: "Away", Message: "not\nyet"}, "web: waiting, 1 write; Away: not yet"},
		{ReconcileFailed, Run{Object: "web", Result: "error", Class: "panic", Attempt: 2, Reason: "Panic"}, "web: failed (panic), nothing to write, attempt 2; Panic"},
	} {
		if got := c.run.Tell(c.logged); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
