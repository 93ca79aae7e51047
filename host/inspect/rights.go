package inspect

import (
	"slices"

	"github.com/thole-dev/thole/abi"
)

// The verbs of RBAC that the host uses, in the order in which they are told.
const (
	verbGet    = "get"
	verbList   = "list"
	verbWatch  = "watch"
	verbCreate = "create"
	verbUpdate = "update"
	verbPatch  = "patch"
	verbDelete = "delete"
)

var verbs = []string{verbGet, verbList, verbWatch, verbCreate, verbUpdate, verbPatch, verbDelete}

// rights lists what the host needs for a controller: what host/cache,
// host/effect and the recorder of events send for it. What a result may ask
// for cannot be narrowed by the manifest counts as needed.
func rights(c *abi.Controller, at resources) Rights {
	var r ruleSet
	r.primary(c, at[c.For])
	for _, kind := range c.Owns {
		r.follow(at[kind])
		r.change(at[kind])
	}
	for _, kind := range c.Reads {
		r.follow(at[kind])
	}
	for _, kind := range c.Writes {
		r.change(at[kind])
	}
	if len(c.Owns) > 0 {
		r.own(at[c.For])
	}
	r.add(resource{plural: "events"}, "", "tell what happened as Kubernetes Events", verbCreate, verbPatch)
	return Rights{Controller: c.Name, Rules: r.rules}
}

// ruleSet has one rule for each resource and subresource.
type ruleSet struct{ rules []Rule }

// primary is what every controller does with the objects that it is for.
func (s *ruleSet) primary(c *abi.Controller, r resource) {
	s.follow(r)
	s.add(r, "", "look at one that has changed during a run", verbGet)
	if c.Finalizer {
		s.add(r, "", "add and remove the finalizer", verbPatch)
	}
	s.add(r, "", "the patch of a result", verbPatch)
	sub := ""
	if r.status {
		sub = "/status"
	}
	s.add(r, sub, "status and conditions", verbPatch)
}

// follow is what an informer does.
func (s *ruleSet) follow(r resource) {
	s.add(r, "", "keep the cache", verbList, verbWatch)
}

// change is what apply and delete do. Server-side apply of an object that does
// not exist is a patch that also needs create.
func (s *ruleSet) change(r resource) {
	s.add(r, "", "look whose an object is before it is touched", verbGet)
	s.add(r, "", "the apply of a result", verbCreate, verbPatch)
	s.add(r, "", "the delete of a result", verbDelete)
}

const ownerEnforcement = "the API server runs the admission plugin OwnerReferencesPermissionEnforcement"

// own is what the owner references of children need: they block the deletion
// of the owner.
func (s *ruleSet) own(r resource) {
	s.add(r, "/finalizers", "owner references that block the owner's deletion", verbUpdate)
	s.of(r, "/finalizers").OnlyIf = ownerEnforcement
}

func (s *ruleSet) add(r resource, sub, use string, wanted ...string) {
	rule := s.of(r, sub)
	for _, verb := range wanted {
		if !slices.Contains(rule.Verbs, verb) {
			rule.Verbs = append(rule.Verbs, verb)
		}
	}
	slices.SortFunc(rule.Verbs, func(a, b string) int { return slices.Index(verbs, a) - slices.Index(verbs, b) })
	if use = list(wanted) + ": " + use; !slices.Contains(rule.Uses, use) {
		rule.Uses = append(rule.Uses, use)
	}
}

// of is the rule of a resource, a new one if there is none yet.
func (s *ruleSet) of(r resource, sub string) *Rule {
	for i := range s.rules {
		if s.rules[i].APIGroups[0] == r.group && s.rules[i].Resources[0] == r.plural+sub {
			return &s.rules[i]
		}
	}
	s.rules = append(s.rules, Rule{APIGroups: []string{r.group}, Resources: []string{r.plural + sub}, Guessed: r.guessed})
	return &s.rules[len(s.rules)-1]
}
