package outcome

import (
	"slices"

	"github.com/thole-dev/thole/abi"
)

// putTarget decides the target condition; the order is that of the package
// comment. It comes last, as it depends on every other condition.
func (b *board) putTarget(declared *abi.Conditions, r run, claims claims) {
	t := target(declared)
	claim := claims.of(t)
	if claim != nil && claim.Status == "" {
		claim = nil // the target is always there
	}
	s := b.summarize(declared)
	switch {
	case s.host && r.failure != nil:
		b.put(abi.Condition{Type: t, Status: statusFalse, Reason: r.failure.reason, Message: r.failure.message})
	case claim != nil && s.allows(claim):
		b.put(*claim)
	case s.status != "":
		b.put(abi.Condition{Type: t, Status: s.status, Reason: s.by.Reason, Message: s.by.Message})
	case r.verdict == success:
		b.put(abi.Condition{Type: t, Status: statusTrue, Reason: ReasonSucceeded, Message: "the wanted state is reached"})
	default:
		b.keepTarget(t)
	}
}

// keepTarget leaves the target unchanged, once there is one.
func (b *board) keepTarget(t string) {
	if index(b.after, t) < 0 {
		b.put(abi.Condition{Type: t, Status: statusUnknown, Reason: ReasonUndetermined, Message: "waiting for a change"})
	}
}

// summary is what the summarized conditions say of the target.
type summary struct {
	status string    // of the target; "" when there is nothing to summarize
	by     Condition // the deciding condition
	host   bool      // which is Stalled or Reconciling
}

// allows says whether a guest's claim about the target can stand: never
// against a declared condition that is bad, and only False while the object
// is reconciling.
func (s summary) allows(claim *abi.Condition) bool {
	if s.status == statusFalse {
		return s.host && claim.Status == statusFalse
	}
	return true
}

// summarize finds the deciding condition: the one of the lowest severity
// number, the first of the manifest's order among equals.
func (b *board) summarize(declared *abi.Conditions) (s summary) {
	lowest := weakest + 1
	for _, t := range summarized(declared) {
		c, ok := find(b.after, t)
		if !ok || t == target(declared) {
			continue
		}
		if n, status := severity(c.Status, negative(declared, t)); n < lowest {
			lowest = n
			s = summary{status: status, by: c, host: hosts(t)}
		}
	}
	return s
}

// summarized lists what the target depends on, in order.
func summarized(d *abi.Conditions) []string {
	types := slices.Clone(d.Summarized)
	for _, t := range []string{Stalled, Reconciling} {
		if !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

func negative(d *abi.Conditions, t string) bool {
	return hosts(t) || slices.Contains(d.NegativePolarity, t)
}

// weakest is the highest severity number, of conditions that say nothing.
const weakest = 4

// severity orders conditions as Flux groups them, and says what status each
// gives to the target.
func severity(status string, negative bool) (int, string) {
	switch {
	case status == statusTrue && negative:
		return 0, statusFalse
	case status == statusFalse && !negative:
		return 1, statusFalse
	case status == statusTrue:
		return 2, statusTrue
	case status == statusFalse:
		return 3, statusTrue
	default:
		return weakest, statusUnknown
	}
}
