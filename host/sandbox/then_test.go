package sandbox

import (
	"testing"

	"github.com/thole-dev/thole/abi/tck"
)

// TestResultsAreReadInTheCallsSlot, and those of calls that failed are not.
func TestResultsAreReadInTheCallsSlot(t *testing.T) {
	s := newSandbox(t, Config{})
	for name, want := range map[string]int{"correct": 1, "code-retry": 1, "trap": 0, "unknown-code": 0} {
		read := 0
		_, _ = loadCase(t, s, name, Limits{}).Reconcile(t.Context(), Call{Request: tck.Request(), Then: func(out Return) {
			read++
			if inUse := s.Slots().InUse; inUse != 1 || len(out.Output) == 0 {
				t.Errorf("%s: %d slots in use, output %q", name, inUse, out.Output)
			}
		}})
		if read != want {
			t.Errorf("%s: read %d times, want %d", name, read, want)
		}
	}
}
