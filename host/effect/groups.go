package effect

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/thole-dev/thole/abi"
)

// This file lets groups of intents fail alone: the first intent of a group that fails ends the
// group, and no more.

// setGroup adds an intent to a group, and returns the failure that ends the call before anything
// is performed. Of a group it is only a violation of the contract, or an outage: any other is the
// failure of the intent once it is its turn.
func (at *location) setGroup(group, verb string, ref abi.Ref, err error) *Failure {
	at.group = group
	if err == nil {
		return nil
	}
	failure := at.inGroup(failed(verb, ref, err))
	if group == "" || !failure.endsGroup() {
		return failure
	}
	at.refused = failure
	return nil
}

// inGroup makes a failure one of the intent's group.
func (at *location) inGroup(failure *Failure) *Failure {
	failure.Group = strings.Clone(at.group) // it is kept until the next run
	return failure
}

// endsGroup reports whether a failure of an intent ends nothing but its group. What is wrong with
// the plugin or the API server, and the end of the run, are not of one group.
func (f *Failure) endsGroup() bool {
	return f.Class != abi.ClassABI && !f.Outage && f.Later == 0 && !errors.Is(f.cause, context.Canceled)
}

// attempt performs an intent unless its group has failed. It returns the failure that ends the
// call. A creation that [session.refused] takes for impossible ends none, nor does it end the
// cleanup of a group.
func (s *session) attempt(at *location, verb string, perform func() error) *Failure {
	if s.hasFailed(at.group) {
		return nil
	}
	failure := at.refused
	if failure == nil {
		err := perform()
		if err == nil {
			at.performed = true
			return nil
		}
		failure = at.inGroup(s.target.failed(verb, at.ref(), err))
	}
	refused := s.refused(at, failure)
	switch {
	case refused && (at.group == "" || s.isEnding()):
		s.impossible = cmp.Or(s.impossible, failure)
		return nil
	case at.group == "" || !failure.endsGroup():
		return failure
	}
	s.report.Groups = append(s.report.Groups, failure)
	s.fail(at.group)
	return nil
}

func (s *session) fail(group string) {
	if s.failed == nil { // as in most calls
		s.failed = map[string]bool{}
	}
	s.failed[group] = true
}

// endGroups ends a call of which not everything was performed. Only the Events of groups whose
// intents were all performed are emitted: no later run performs them again.
func (s *session) endGroups(events []abi.Event) {
	complete := map[string]bool{} // the last intent of a group is performed after its others
	for i := range s.applies {
		complete[s.applies[i].group] = s.applies[i].performed
	}
	for i := range s.deletes {
		complete[s.deletes[i].group] = s.deletes[i].performed
	}
	s.fail("")
	for _, e := range events {
		if !complete[e.Group] {
			s.fail(e.Group)
		}
	}
}

// hasFailed reports whether an intent of a group has failed; "" is none.
func (s *session) hasFailed(group string) bool { return s.failed[group] }

// isEnding reports whether the primary is being deleted, or gone.
func (s *session) isEnding() bool { return s.target.Object.Deleting() || s.target.Gone }
