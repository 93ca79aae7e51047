package sandbox

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi/tck"
)

// TestHostile runs the guests that are made to harm the host.
func TestHostile(t *testing.T) {
	tck.Run(t, conforming{t, newSandbox(t, Config{})}, tck.Hostile())
}

// outcomeOf is all that a call gives that a replay must give again.
type outcomeOf struct {
	code   int32
	output string
	fuel   int64
	memory uint64
	text   string
}

// TestSameCallSameOutcome calls every guest of the kit that loads in two
// sandboxes. Guests that only their deadline would end get a limit of fuel
// instead, which is met at the same instruction each time.
func TestSameCallSameOutcome(t *testing.T) {
	one, other := newSandbox(t, Config{}), newSandbox(t, Config{})
	for _, c := range append(tck.Cases(), tck.Hostile()...) {
		if c.Stage == tck.StageLoad {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			first := outcomes(t, one, c, 2)
			for i, again := range append(outcomes(t, other, c, 1), first...) {
				if again != first[0] {
					t.Errorf("outcome %d is %+v, the first was %+v", i, again, first[0])
				}
			}
		})
	}
}

func outcomes(t *testing.T, s *Sandbox, c tck.Case, calls int) []outcomeOf {
	t.Helper()
	limits := limitsOf(c.Limits)
	if c.Timed() {
		limits.Deadline, limits.Fuel = time.Minute, 1_000_000
	}
	g := load(t, s, Plugin{Name: c.Name, Wasm: c.Wasm(), Limits: limits})
	defer closeGuest(t, g)
	var out []outcomeOf
	for range calls {
		ret, err := g.Reconcile(t.Context(), Call{Request: tck.Request(), Now: callTime, Seed: [32]byte{1}, Host: world{t}})
		out = append(out, outcomeOf{int32(ret.Code), string(ret.Output), ret.Fuel, ret.MemoryBytes, faultText(err)})
	}
	return out
}

// faultText is all that a failed call says.
func faultText(err error) string {
	if fault, ok := errors.AsType[*Fault](err); ok {
		return fmt.Sprint(err, fault.Stack, fault.Fuel)
	}
	return fmt.Sprint(err)
}
