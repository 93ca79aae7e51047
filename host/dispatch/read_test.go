package dispatch

import (
	"context"
	"testing"

	"github.com/thole-dev/thole/abi"
)

// TestResultsAreReadOnce, whether the guest hands them over or not.
func TestResultsAreReadOnce(t *testing.T) {
	for _, handsOver := range []bool{true, false} {
		for output, want := range map[string]string{`{"status":{"x":1}}`: "", `{"x":1}`: "InvalidResult"} {
			b := newBench(t)
			r := &run{c: b.c, generation: b.c.Generation(), state: &keyState{}, given: b.put(aWidget)}
			b.reconcile = func(_ context.Context, call Call) (Return, error) {
				ret := Return{Code: abi.CodeOK, Output: []byte(output)}
				if handsOver {
					call.Then(ret)
					ret.Output = nil // is not looked at again
				}
				return ret, nil
			}
			r.call(t.Context())
			if fault := r.fault; (fault == nil) != (want == "") || fault != nil && fault.Reason != want {
				t.Errorf("handed over: %t, %s: fault %+v, want %q", handsOver, output, fault, want)
			}
		}
	}
}
