package outcome

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/sanitize"
)

// This file reads status.conditions and computes what a run changes there. The
// target conditions are decided in summary.go.

// Condition types and reasons of kstatus that the host sets itself.
const (
	Ready       = "Ready"       // the wanted state is reached; a manifest may name another target condition
	Reconciling = "Reconciling" // True while the wanted state is not reached and the host goes on trying
	Stalled     = "Stalled"     // True after a failure that only a change of the object or of what was read can mend

	ReasonSucceeded            = "Succeeded"            // of the target after a run that reached the wanted state
	ReasonProgressing          = "Progressing"          // of Reconciling after a run that asked to come again
	ReasonProgressingWithRetry = "ProgressingWithRetry" // of Reconciling after a failed run that is repeated
	ReasonWaiting              = "Waiting"              // of a waiting guest that gave no reason
	ReasonUndetermined         = "Undetermined"         // of a target condition that nothing has determined yet
)

// ReadConditions returns status.conditions of an object.
func ReadConditions(object []byte) (conditions []abi.Condition) {
	list, _ := rawjson.Lookup(object, "status", "conditions")
	if EachCondition(list, func(c abi.Condition, _ []byte) { conditions = append(conditions, c) }) != nil {
		return nil
	}
	return conditions
}

// EachCondition calls visit for each element of a list of conditions, with the
// element's bytes, which may have more members. What is not of the form of
// metav1.Condition reads as the zero value, so that the mistake of one writer
// hides no condition of the others. The error is one of JSON syntax.
func EachCondition(list []byte, visit func(c abi.Condition, raw []byte)) error {
	if len(list) == 0 || string(list) == "null" {
		return nil
	}
	r := rawjson.NewReader(list)
	r.Array(func(int) {
		var c abi.Condition
		start := r.Pos()
		if r.Kind() == '{' {
			r.Object(func(member string) { readMember(r, member, &c) })
		} else {
			r.Skip()
		}
		visit(c, r.Since(start))
	})
	return r.End()
}

// readMember reads one member of a condition, unless its type is another one.
func readMember(r *rawjson.Reader, member string, c *abi.Condition) {
	switch r.Kind() {
	case '"':
		readStringMember(r, member, c)
	case '0':
		if member == "observedGeneration" {
			c.ObservedGeneration, _ = strconv.ParseInt(string(r.Raw()), 10, 64)
		}
	}
}

func readStringMember(r *rawjson.Reader, member string, c *abi.Condition) {
	switch member {
	case "type":
		c.Type = r.String()
	case "status":
		c.Status = r.String()
	case "reason":
		c.Reason = r.String()
	case "message":
		c.Message = r.String()
	case "lastTransitionTime":
		// A time that does not parse is none: the next write sets it.
		if t := abi.Time(r.String()); !t.Time().IsZero() {
			c.LastTransitionTime = t
		}
	}
}

// conditionSet computes the conditions of an object: those that it has, and
// what becomes of them.
type conditionSet struct {
	declared *abi.Conditions
	target   string          // the type of conditions.target
	guest    []abi.Condition // of the result, if it is honoured
	ending   ending

	before     []abi.Condition
	after      []abi.Condition // with all changes so far; never shares the array of before
	changed    []string        // types in the order of their first change
	generation int64
	now        time.Time
}

// newConditionSet leaves out Stalled and Reconciling where they belong to the
// controller that targets Ready, and this controller is another one.
func newConditionSet(in Input, e ending) *conditionSet {
	s := &conditionSet{
		declared: &in.Controller.Conditions, target: target(&in.Controller.Conditions), ending: e,
		before: in.Object.Conditions, generation: in.Object.Generation, now: in.Now,
	}
	if e.honoured {
		s.guest = in.Result.Conditions
	}
	if s.target != Ready {
		s.before = slices.DeleteFunc(slices.Clone(s.before), func(c abi.Condition) bool { return setByHost(c.Type) })
	}
	const more = 4 // what most runs add
	s.after = append(make([]abi.Condition, 0, len(s.before)+more), s.before...)
	s.changed = make([]string, 0, len(s.before)+more)
	return s
}

// conditions decides everything about status that the host writes. An object
// that was cleaned up successfully gets only the conditions that the guest
// returned: its status is not read any more, and a write is saved.
func (d *Decision) conditions(in Input, e ending, row row) {
	s := newConditionSet(in, e)
	s.setOwned()
	if d.RemoveFinalizer {
		s.setClaims()
		d.take(s)
		return
	}
	s.setGroups(in)
	s.apply(Stalled, row.stalled, row.reason)
	s.apply(Reconciling, row.reconciling, row.reason)
	if row.observed {
		s.renewOwned()
		if s.target == Ready {
			d.ObservedGeneration = &s.generation
		}
	}
	s.setTargets(row)
	d.take(s)
}

// take fills in the decision's changes, without what belongs to the controller
// that targets Ready if this one does not.
func (d *Decision) take(s *conditionSet) {
	for _, t := range s.changed {
		if s.target != Ready && setByHost(t) {
			continue
		}
		if i := index(s.after, t); i >= 0 {
			d.Set = append(d.Set, s.after[i])
		} else {
			d.Remove = append(d.Remove, t)
		}
	}
}

// set sets a condition. lastTransitionTime changes only if its status differs
// from the one that the object came with.
func (s *conditionSet) set(c abi.Condition) {
	c.Message, c.ObservedGeneration = sanitize.Truncate(c.Message, maxMessage), s.generation
	c.LastTransitionTime = ""
	if i := index(s.before, c.Type); i >= 0 && s.before[i].Status == c.Status {
		c.LastTransitionTime = s.before[i].LastTransitionTime
	}
	if c.LastTransitionTime == "" {
		c.LastTransitionTime = abi.TimeOf(s.now)
	}
	if i := index(s.after, c.Type); i >= 0 {
		s.after[i] = c
	} else {
		s.after = append(s.after, c)
	}
	s.noteChange(c.Type)
}

// remove removes a condition. It is in the decision also if the object does not
// have it: the object may have got it since.
func (s *conditionSet) remove(conditionType string) {
	if i := index(s.after, conditionType); i >= 0 {
		s.after = slices.Delete(s.after, i, i+1)
	}
	s.noteChange(conditionType)
}

// renew asserts a condition as it stands, at the present generation.
func (s *conditionSet) renew(conditionType string) {
	if i := index(s.after, conditionType); i >= 0 {
		s.set(s.after[i])
	}
}

// renewOwned renews every condition of the object that belongs to the
// controller, and that the run did not remove: the run has seen it and kept it.
func (s *conditionSet) renewOwned() {
	for i := range s.before {
		if t := s.before[i].Type; mayWrite(s.declared, t) {
			s.renew(t)
		}
	}
}

func (s *conditionSet) noteChange(conditionType string) {
	if !slices.Contains(s.changed, conditionType) {
		s.changed = append(s.changed, conditionType)
	}
}

// index returns the place of the condition of a type, -1 if there is none.
func index(conditions []abi.Condition, conditionType string) int {
	for i := range conditions { // a condition is too large to be passed to a function for each
		if conditions[i].Type == conditionType {
			return i
		}
	}
	return -1
}

// mayWrite reports whether conditions of a type belong to the controller.
func mayWrite(declared *abi.Conditions, conditionType string) bool {
	return isTarget(declared, conditionType) || setByHost(conditionType) || slices.Contains(declared.Owned, conditionType)
}

// setByHost reports whether the host sets conditions of a type by itself.
func setByHost(conditionType string) bool {
	return conditionType == Stalled || conditionType == Reconciling
}

// guests returns the guest's condition of a type, nil if there is none. Of
// several the last one counts.
func (s *conditionSet) guests(conditionType string) *abi.Condition {
	for i := range slices.Backward(s.guest) {
		if s.guest[i].Type == conditionType {
			return &s.guest[i]
		}
	}
	return nil
}

// setOwned takes over the guest's own conditions. Targets, Stalled and
// Reconciling have rules of their own.
func (s *conditionSet) setOwned() {
	for i := range s.guest {
		if t := s.guest[i].Type; !isTarget(s.declared, t) && !setByHost(t) {
			s.setAsGuest(&s.guest[i])
		}
	}
}

// setClaims takes over the targets that the guest set.
func (s *conditionSet) setClaims() {
	for i := range s.guest {
		if isTarget(s.declared, s.guest[i].Type) {
			s.setAsGuest(&s.guest[i])
		}
	}
}

// setAsGuest sets or removes a condition as the guest asked; nil changes
// nothing.
func (s *conditionSet) setAsGuest(c *abi.Condition) {
	switch {
	case c == nil:
	case c.Status == "":
		s.remove(c.Type)
	default:
		s.set(*c)
	}
}

// apply sets or removes Stalled or Reconciling by the rule of the result
// table. They are never left as False, because programs that compute kstatus
// take them for True when they are present.
func (s *conditionSet) apply(conditionType string, r rule, reason string) {
	c := s.guests(conditionType)
	guestSetIt := c != nil && c.Status == abi.ConditionTrue
	switch {
	case r == set, r == setUnlessGuest && !guestSetIt:
		s.set(s.ending.condition(conditionType, reason))
	case r == setUnlessGuest, r == onlyIfGuest && guestSetIt:
		s.set(*c)
	case r == onlyIfGuest && c == nil && s.reconcilingIsGuests():
		s.renew(conditionType)
	default:
		s.remove(conditionType)
	}
}

// reconcilingIsGuests reports whether the condition Reconciling of the object
// was set by a guest, in an earlier run. A result without the condition keeps
// it. The host's own Reconciling is recognised by its reason.
func (s *conditionSet) reconcilingIsGuests() bool {
	i := index(s.before, Reconciling)
	return i >= 0 && s.before[i].Status == abi.ConditionTrue &&
		!slices.Contains([]string{ReasonProgressing, ReasonProgressingWithRetry, ReasonWaiting}, s.before[i].Reason)
}

// condition returns a condition that is True because of how the run ended.
func (e ending) condition(conditionType, reason string) abi.Condition {
	c := abi.Condition{Type: conditionType, Status: abi.ConditionTrue, Reason: reason, Message: "the wanted state is not reached yet"}
	if e.failure != nil {
		c.Reason, c.Message = cmp.Or(reason, e.failure.reason), e.failure.message
	}
	return c
}
