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

func TestResult(t *testing.T) {
	for logged, want := range map[string]string{Reconciled: "requeue after", ReconcileWaits: "waiting", ReconcileFailed: "failed (panic)"} {
		if got := Result(logged, "requeue_after", "panic"); got != want {
			t.Errorf("%s: %q, want %q", logged, got, want)
		}
	}
}
