package dispatch

import (
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi"
)

// A result with another code may lack what the next one names.
func TestOnlyARunThatSucceedsPrunes(t *testing.T) {
	for code, want := range map[abi.Code]bool{abi.CodeOK: true, abi.CodeRetry: false, abi.CodeStalled: false, abi.CodeWaiting: false} {
		f := newFixture(t)
		f.put(aWidget)
		f.swap(func(r *Revision) { r.Controller.Prune = true })
		f.ends(code, abi.Result{Result: abi.OutcomeSuccess, Prune: true})
		f.run(abi.ReasonPrimary)
		if slices.Contains(f.log, "prune") != want {
			t.Errorf("code %d: %q", code, f.log)
		}
	}
}
