// Package active holds the rules that are in force and decides to which requests
// they apply.
package active

import (
	"slices"
	"sync"
	"time"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/request"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/rule"
)

// Set is the list of rules. The first rule that matches a request and is not used
// up applies to it; rules of the fault "delay" apply beside it, and add up.
//
// A request meets a rule once: when the request arrives, or, if it is an open watch
// then, when the rule is added.
type Set struct {
	mu      sync.Mutex
	faults  []*Fault
	watches []*Exchange   // open ones, in the order in which they arrived
	changed chan struct{} // closed, and replaced, when a rule is added or ends
}

// NewSet returns a set without rules.
func NewSet() *Set { return &Set{changed: make(chan struct{})} }

// Fault is a rule in force.
type Fault struct {
	rule.Rule
	Version string // resourceVersion at which a stale rule was added

	// Guarded by the mutex of the set.
	matched, applied int
	ended            bool
	timer            *time.Timer // nil if the rule does not end by itself
}

// Replace ends all rules and adds others. version is the current resourceVersion,
// for rules of the fault "stale". What an old rule held back on a watch stays held
// back if a new rule does the same.
func (s *Set) Replace(rules []rule.Rule, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		f.ended = true
		if f.timer != nil {
			f.timer.Stop()
		}
	}
	s.faults = nil
	s.add(rules, version)
}

// Add adds rules after those that exist.
func (s *Set) Add(rules []rule.Rule, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(rules, version)
}

func (s *Set) add(rules []rule.Rule, version string) {
	for _, r := range rules {
		f := &Fault{Rule: r, Version: version}
		if r.For > 0 {
			f.timer = time.AfterFunc(r.For, func() { s.end(f) })
		}
		s.faults = append(s.faults, f)
		if !r.Fault.Ongoing() {
			continue
		}
		for _, watch := range s.watches {
			watch.meet(f, true)
		}
	}
	s.notify()
}

func (s *Set) end(f *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.ended = true
	s.notify()
}

func (s *Set) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Use is how often a rule was used.
type Use struct {
	Rule    string `json:"rule"`
	Matched int    `json:"matched"` // requests that it is about
	Applied int    `json:"applied"` // requests that got its fault
	Ended   bool   `json:"ended"`   // by "for"
}

// Uses returns the rules with how often each was used, in their order.
func (s *Set) Uses() []Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	uses := make([]Use, len(s.faults))
	for i, f := range s.faults {
		uses[i] = Use{f.Text, f.matched, f.applied, f.ended}
	}
	return uses
}

// Exchange is a request and the rules that apply to it.
type Exchange struct {
	attributes request.Attributes
	set        *Set
	applied    func(rule string) // called with the mutex of the set

	// Guarded by the mutex of the set.
	fault  *Fault // nil for none
	delays []*Fault
}

// Begin returns the exchange of a request that has arrived; [Exchange.End] must be
// called. applied is called with the text of each rule that is applied to it.
func (s *Set) Begin(a request.Attributes, applied func(rule string)) *Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &Exchange{attributes: a, set: s, applied: applied}
	for _, f := range s.faults {
		e.meet(f, false)
	}
	if a.Verb == "watch" {
		s.watches = append(s.watches, e)
	}
	return e
}

// End is called when the request has been answered or has failed.
func (e *Exchange) End() {
	e.set.mu.Lock()
	defer e.set.mu.Unlock()
	e.set.watches = slices.DeleteFunc(e.set.watches, func(other *Exchange) bool { return other == e })
}

// meet applies a rule if it matches and no other has been applied. A new rule cuts
// an open watch whatever else applies to it.
func (e *Exchange) meet(f *Fault, open bool) {
	if f.ended || !f.Matches(e.attributes) {
		return
	}
	if !e.refusedWatchList(f) {
		f.matched++
	}
	if f.Times > 0 && f.applied >= f.Times || f.matched <= f.After && !e.refusedWatchList(f) {
		return
	}
	switch {
	case f.Rule.Fault == rule.Delay:
		e.delays = append(e.delays, f)
	case e.fault == nil || e.fault.ended || open && f.Rule.Fault == rule.Cut:
		e.fault = f
	default:
		return
	}
	if !e.refusedWatchList(f) {
		f.applied++
	}
	e.applied(f.Text)
}

// refusedWatchList reports whether the request is a watch that begins with a list,
// which a rule for stale lists refuses so that the client lists. It is no use of the
// rule: that is the list which follows.
func (e *Exchange) refusedWatchList(f *Fault) bool {
	return f.Rule.Fault == rule.Stale && e.attributes.WatchList
}

// State is what applies to a request at a time.
type State struct {
	Fault   *Fault          // nil for none
	Delay   time.Duration   // the sum of all delays
	Changed <-chan struct{} // closed when the state may be another one
}

// State returns what applies now. Rules that have ended apply no more.
func (e *Exchange) State() State {
	e.set.mu.Lock()
	defer e.set.mu.Unlock()
	state := State{Changed: e.set.changed}
	if e.fault != nil && !e.fault.ended {
		state.Fault = e.fault
	}
	for _, f := range e.delays {
		if !f.ended {
			state.Delay += f.Delay
		}
	}
	return state
}
