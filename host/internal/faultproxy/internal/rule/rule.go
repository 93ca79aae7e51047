// Package rule is the language of fault rules. One line is one rule:
//
//	VERBS RESOURCES FAULT [key=value ...]
//
// [Parse] describes each part. docs/how-to/faults.md has the faults by example.
package rule

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/request"
)

// Rule is a fault and the requests that it applies to.
type Rule struct {
	Text string // as it was written

	Verbs     []string // of RBAC, and "apply"
	Resources []Resource
	Namespace string // "" for all
	Name      string // of an object, "" for all
	UserAgent string // a part of it, "" for all

	Fault  Fault
	Status Status        // of the fault "status"
	Delay  time.Duration // of the fault "delay"

	After int           // how many matching requests pass first
	Times int           // to how many requests the fault applies at most; 0 for all
	For   time.Duration // after which the rule ends; 0 for never
}

// Status is the reply of the fault "status".
type Status struct {
	Code       int
	Reason     string        // "" for that of the code
	Message    string        // "" for that of the code
	RetryAfter time.Duration // whole seconds; 0 for none
	Body       *string       // nil for a metav1.Status
}

// Fault names what happens to a request.
type Fault string

// The faults. Those of watches apply to watches only.
const (
	Reply         Fault = "status"         // answered by the proxy
	Lost          Fault = "lost"           // performed, and the reply is lost
	Cut           Fault = "cut"            // the connection is cut
	Half          Fault = "half"           // half of the reply's body arrives
	Hang          Fault = "hang"           // never answered
	Delay         Fault = "delay"          // passed on later
	Freeze        Fault = "freeze"         // watches: nothing arrives
	BookmarksOnly Fault = "bookmarks-only" // watches: events are held back
	NoBookmarks   Fault = "no-bookmarks"   // watches: bookmarks are dropped
	Gone          Fault = "gone"           // watches: 410 Expired
	Stale         Fault = "stale"          // lists: an old state
	Kill          Fault = "kill"           // performed, and the client's process is killed
	Stop          Fault = "stop"           // performed, and the client's process is stopped
)

// property is what the rest of the proxy must know of a fault.
type property struct {
	value   string // what follows "=", "" for a fault without a value
	verbs   []string
	ongoing bool // a new rule of this fault applies to watches that are open, too
}

var watches = []string{"watch"}

var faults = map[Fault]property{
	Reply: {value: "CODE"},
	Lost:  {}, Half: {}, Hang: {}, Kill: {}, Stop: {},
	Cut:           {ongoing: true},
	Delay:         {value: "DURATION", ongoing: true},
	Freeze:        {verbs: watches, ongoing: true},
	BookmarksOnly: {verbs: watches, ongoing: true},
	NoBookmarks:   {verbs: watches, ongoing: true},
	Gone:          {verbs: watches, ongoing: true},
	Stale:         {verbs: []string{"list"}},
}

// Ongoing reports whether a new rule of this fault applies to open watches.
func (f Fault) Ongoing() bool { return faults[f].ongoing }

// Resource selects resources by name.
type Resource struct {
	Name        string // "*" for all
	Group       string // "" for all
	Subresource string // "" for none, "*" for all and none
}

// Matches reports whether the rule is about a request. A stale list is also about
// a watch that begins with a list.
func (r *Rule) Matches(a request.Attributes) bool {
	return a.Resource != "" && r.matchesVerb(a) &&
		slices.ContainsFunc(r.Resources, func(selector Resource) bool { return selector.matches(a) }) &&
		(r.Namespace == "" || r.Namespace == a.Namespace) &&
		(r.Name == "" || r.Name == a.Name) &&
		strings.Contains(a.UserAgent, r.UserAgent)
}

func (r *Rule) matchesVerb(a request.Attributes) bool {
	verb := a.Verb
	if r.Fault == Stale && a.WatchList {
		verb = "list"
	}
	return slices.Contains(r.Verbs, verb) && r.Fault.appliesTo(verb)
}

func (f Fault) appliesTo(verb string) bool {
	only := faults[f].verbs
	return only == nil || slices.Contains(only, verb)
}

func (r Resource) matches(a request.Attributes) bool {
	name, subresource, _ := strings.Cut(a.Resource, "/")
	return (r.Name == "*" || r.Name == name) &&
		(r.Group == "" || r.Group == a.Group) &&
		(r.Subresource == "*" || r.Subresource == subresource)
}

// faultForms returns how each fault is written, in the order of the alphabet.
func faultForms() (forms []string) {
	for _, f := range slices.Sorted(maps.Keys(faults)) {
		form := string(f)
		if value := faults[f].value; value != "" {
			form += "=" + value
		}
		forms = append(forms, form)
	}
	return forms
}
