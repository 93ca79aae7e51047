package dispatch

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// fate is how the last run of an object ended, as far as the plugin decides it.
type fate int

const (
	unknown fate = iota // it has not run, or the host or the API server was in the way
	well                // stalled and waiting too: the plugin has answered
	suspect             // the plugin asked to be called again, once: that may pass
	unwell              // the plugin broke, or has asked twice in a row
)

// then is the fate after another run.
func (f fate) then(next fate) fate {
	switch {
	case next == unknown:
		return f
	case next == suspect && (f == suspect || f == unwell):
		return unwell
	default:
		return next
	}
}

// fate is how the run ended.
func (r *run) fate() fate {
	class := r.decision.Class
	switch {
	case r.uncounted:
		return unknown
	case outcome.PluginFault(class):
		return unwell
	case r.fault != nil:
		return unknown // the host's
	case len(r.failures) > 0:
		return r.refused()
	case class == abi.ClassRetry:
		return suspect
	default:
		return well
	}
}

// refused is the fate of a run whose effects failed: what the API server
// refuses for its content is the plugin's.
func (r *run) refused() fate {
	byContent := func(f abi.EffectFailure) bool { return slices.Contains(refusals, f.Reason) }
	if slices.ContainsFunc(r.failures, byContent) {
		return suspect
	}
	return unknown
}

// fared is how an object did under two generations of its plugin.
type fared struct {
	before fate // under the last generation that has passed its trial
	now    fate // under the generation that runs
}

// next is for another generation; passed says that the one until now has
// passed its trial. Else what follows is compared with the one before it.
func (f *fared) next(passed bool) {
	if passed && f.now != unknown {
		f.before = f.now
	}
	f.now = unknown
}

// compare holds the two against each other.
func (f fared) compare() comparison {
	failed := f.before == suspect || f.before == unwell
	switch {
	case f.before == unknown || f.now == unknown || f.now == suspect:
		return comparison{}
	case f.now == unwell && !failed:
		return comparison{compared: 1, worse: 1}
	case f.now == well && failed:
		return comparison{compared: 1, better: 1}
	default:
		return comparison{compared: 1}
	}
}
