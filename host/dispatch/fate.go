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
	case next == suspect && f.bad():
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

func (f fate) bad() bool { return f == suspect || f == unwell }

// fared is how an object did under two generations of its plugin.
type fared struct {
	before fate // under the last generation that has passed its trial
	now    fate // under the generation that runs

	given, asked input // what the last runs of before and of now were given
}

// input tells whether an object asks for the same as before.
type input struct {
	generation int64
	deleting   bool
}

// ran takes a run in and returns what it counts as. onTrial says that it is
// held against the runs before: to ask for another call may then be right,
// where the object was edited since, or is cleaned up now.
func (f *fared) ran(next fate, in input, onTrial bool) fate {
	if onTrial && next == suspect && f.before != unknown && in != f.given {
		next = unknown
	}
	if next != unknown {
		f.asked = in
	}
	f.now = f.now.then(next)
	return next
}

// next is for another generation; passed says that the one until now has
// passed its trial. Else what follows is compared with the one before it.
func (f *fared) next(passed bool) {
	if passed && f.now != unknown {
		f.before, f.given = f.now, f.asked
	}
	f.now = unknown
}

// compare holds the two against each other. What is suspect has run, and
// counts for how few worse ones are enough.
func (f fared) compare() comparison {
	failed := f.before.bad()
	switch {
	case f.before == unknown || f.now == unknown:
		return comparison{}
	case f.now == unwell && !failed:
		return comparison{compared: 1, worse: 1}
	case f.now == well && failed:
		return comparison{compared: 1, better: 1}
	default:
		return comparison{compared: 1}
	}
}
