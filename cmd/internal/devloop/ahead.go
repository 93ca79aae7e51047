package devloop

import "github.com/thole-dev/thole/cmd/internal/words"

// ahead holds back what a generation does before the host says that it runs.
type ahead struct {
	running int // the generation that runs, 0 for none
	held    []*record
}

// mostHeld is when a host that says nothing is no longer waited for.
const mostHeld = 1000

// early takes a record that is to be told later.
func (a *ahead) early(r *record) bool {
	if r.module != dispatchModule && r.module != guestModule || r.number("generation") <= a.running || len(a.held) == mostHeld {
		return false
	}
	a.held = append(a.held, r)
	return true
}

// release follows what the host says of generations, and returns what can be
// told after it.
func (a *ahead) release(r *record) []*record {
	switch {
	case r.text == words.PluginRuns:
		a.running = r.number("generation")
	case r.text == words.RolledBack:
		a.running = r.number("to")
	case r.text == words.PluginStopped:
		a.running = 0
		return nil
	case len(a.held) == mostHeld:
		a.running = a.held[mostHeld-1].number("generation")
	default:
		return nil
	}
	held := a.held
	a.held = nil
	return held
}
