package dispatch

import (
	"context"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

// wanting is a reconcile whose result has so many intents.
func wanting(n int) func(context.Context, Call) (Return, error) {
	result := &abi.Result{}
	for range n {
		result.Events = append(result.Events, abi.Event{Type: abi.EventNormal, Reason: "Any", Message: "any"})
	}
	return func(context.Context, Call) (Return, error) { return returns(result) }
}

func TestIntentsAreBounded(t *testing.T) {
	for _, c := range []struct {
		name     string
		limit, n int
		ready    string
	}{
		{"as many as the policy allows", 2, 2, "Ready=True/Succeeded"},
		{"more than the policy allows", 2, 3, "Ready=False/TooManyIntents"},
		{"as many as the ABI allows", 0, abi.MaxIntents, "Ready=True/Succeeded"},
		{"more than the ABI allows", 0, abi.MaxIntents + 1, "Ready=False/InvalidResult"},
		{"more than either allows", 2, abi.MaxIntents + 1, "Ready=False/InvalidResult"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.c.generation.Load().Intents = c.limit
			b.put(aWidget)
			b.reconcile = wanting(c.n)
			b.run()
			log := strings.Join(b.log, "\n")
			if !strings.Contains(log, c.ready) {
				t.Errorf("what happened:\n%s\nwant %s", log, c.ready)
			}
			refused := !strings.Contains(c.ready, "True")
			if got := strings.Contains(log, "limited by intents"); got != refused {
				t.Errorf("counted: %v, want %v", got, refused)
			}
		})
	}
}
