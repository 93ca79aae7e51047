package outcome

import (
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
)

const (
	statusTrue    = "True"
	statusFalse   = "False"
	statusUnknown = "Unknown"
)

// board is the object's conditions while a decision is made: those that it
// has, and what becomes of them.
type board struct {
	before     []Condition
	after      []Condition // with all changes so far; never the array of before
	touched    []string    // types in the order of their first change
	generation int64
	time       time.Time
}

// newBoard leaves out Stalled and Reconciling where they are those of another
// controller: the one that targets Ready.
func newBoard(in Input) *board {
	b := &board{before: in.Object.Conditions, generation: in.Object.Generation, time: in.Now.UTC().Truncate(time.Second)}
	if target(&in.Controller.Conditions) != Ready {
		b.before = slices.DeleteFunc(slices.Clone(b.before), func(c Condition) bool { return hosts(c.Type) })
	}
	const more = 4 // what most runs add
	b.after = append(make([]Condition, 0, len(b.before)+more), b.before...)
	b.touched = make([]string, 0, len(b.before)+more)
	return b
}

// put sets a condition. lastTransitionTime moves only when its status differs
// from the one that the object came with.
func (b *board) put(c abi.Condition) {
	n := Condition{
		Type: c.Type, Status: c.Status, Reason: c.Reason, Message: truncate(c.Message, maxMessage),
		LastTransitionTime: b.time, ObservedGeneration: b.generation,
	}
	if old, ok := find(b.before, c.Type); ok && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
		n.LastTransitionTime = old.LastTransitionTime
	}
	if i := index(b.after, c.Type); i >= 0 {
		b.after[i] = n
	} else {
		b.after = append(b.after, n)
	}
	b.touch(c.Type)
}

func (b *board) remove(t string) {
	if i := index(b.after, t); i >= 0 {
		b.after = slices.Delete(b.after, i, i+1)
	}
	b.touch(t)
}

// restamp asserts a condition as it stands, seen at the present generation.
func (b *board) restamp(t string) {
	if c, ok := find(b.after, t); ok {
		b.put(abi.Condition{Type: t, Status: c.Status, Reason: c.Reason, Message: c.Message})
	}
}

func (b *board) touch(t string) {
	if !slices.Contains(b.touched, t) {
		b.touched = append(b.touched, t)
	}
}

func index(conditions []Condition, t string) int {
	for i := range conditions { // a condition is too large to pass to a function for each
		if conditions[i].Type == t {
			return i
		}
	}
	return -1
}

func find(conditions []Condition, t string) (Condition, bool) {
	if i := index(conditions, t); i >= 0 {
		return conditions[i], true
	}
	return Condition{}, false
}

// owns says whether the controller may write conditions of a type.
func owns(d *abi.Conditions, t string) bool {
	return t == target(d) || hosts(t) || slices.Contains(d.Owned, t)
}

// hosts says whether the host sets conditions of a type by itself.
func hosts(t string) bool { return t == Stalled || t == Reconciling }

func target(d *abi.Conditions) string {
	if d.Target == "" {
		return Ready
	}
	return d.Target
}

// conditions decides everything about status that the host writes. An object
// that was cleaned up successfully gets nothing but what the guest said: its
// status is nobody's business any more, and one write is saved.
func (d *Decision) conditions(in Input, r run, row row) {
	b := newBoard(in)
	declared := &in.Controller.Conditions
	var claims claims
	if r.returned {
		claims = in.Result.Conditions
	}
	b.apply(claims, target(declared))
	if d.RemoveFinalizer {
		b.claim(claims.of(target(declared)))
		d.write(b, declared)
		return
	}
	b.mark(Stalled, row.stalled, row.reason, r, claims)
	b.mark(Reconciling, row.reconciling, row.reason, r, claims)
	if row.observed {
		b.restampOwned(declared)
		d.observe(in, declared)
	}
	b.putTarget(declared, r, claims)
	d.write(b, declared)
}

// claims are the conditions of a result that is honoured.
type claims []abi.Condition

// of returns what the guest says of a type, nil for nothing; of several the
// last counts.
func (c claims) of(t string) *abi.Condition {
	for i := range slices.Backward(c) {
		if c[i].Type == t {
			return &c[i]
		}
	}
	return nil
}

// apply takes over what the guest says of its own conditions; the target,
// Stalled and Reconciling have rules of their own.
func (b *board) apply(claims claims, target string) {
	for i := range claims {
		if t := claims[i].Type; t != target && !hosts(t) {
			b.claim(&claims[i])
		}
	}
}

func (b *board) claim(c *abi.Condition) {
	switch {
	case c == nil:
	case c.Status == "":
		b.remove(c.Type)
	default:
		b.put(*c)
	}
}

// mark sets or removes Stalled or Reconciling. They are never left as False:
// checkers of kstatus take their presence for their being.
func (b *board) mark(t string, m mark, reason string, r run, claims claims) {
	guest := claims.of(t)
	switch {
	case m == set:
		b.put(r.condition(t, statusTrue, reason))
	case m == setGuest && !isTrue(guest):
		b.put(r.condition(t, statusTrue, reason))
	case m == setGuest, m == asGuest && isTrue(guest):
		b.put(*guest)
	case m == asGuest && guest == nil && b.guestsReconciling():
		b.restamp(t)
	default:
		b.remove(t)
	}
}

// guestsReconciling says whether the Reconciling on the object is there
// because a guest set it in an earlier run. An absent condition in a result
// keeps what is there; the host's own reasons tell its Reconciling apart.
func (b *board) guestsReconciling() bool {
	c, ok := find(b.before, Reconciling)
	return ok && c.Status == statusTrue &&
		!slices.Contains([]string{ReasonProgressing, ReasonProgressingWithRetry, ReasonWaiting}, c.Reason)
}

// condition returns a condition that tells how the run ended.
func (r run) condition(t, status, reason string) abi.Condition {
	c := abi.Condition{Type: t, Status: status, Reason: reason, Message: "the wanted state is not reached yet"}
	if r.failure == nil {
		return c
	}
	c.Message = r.failure.message
	if reason == "" {
		c.Reason = r.failure.reason
	}
	return c
}

func (b *board) restampOwned(declared *abi.Conditions) {
	for _, c := range b.before {
		if owns(declared, c.Type) {
			b.restamp(c.Type)
		}
	}
}

func isTrue(c *abi.Condition) bool { return c != nil && c.Status == statusTrue }

// observe lets observedGeneration be written; it belongs to the controller
// that targets Ready.
func (d *Decision) observe(in Input, declared *abi.Conditions) {
	if target(declared) == Ready {
		generation := in.Object.Generation
		d.ObservedGeneration = &generation
	}
}

// write turns the board into the decision's changes, without what belongs to
// the controller that targets Ready if this one does not.
func (d *Decision) write(b *board, declared *abi.Conditions) {
	for _, t := range b.touched {
		if target(declared) != Ready && hosts(t) {
			continue
		}
		if c, ok := find(b.after, t); ok {
			d.Set = append(d.Set, c)
		} else {
			d.Remove = append(d.Remove, t)
		}
	}
}
