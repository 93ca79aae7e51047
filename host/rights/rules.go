package rights

import (
	"cmp"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi"
)

// This file makes rules of RBAC of what a plugin needs, see grants.go.

// Rule is a rule of RBAC about one resource, in one namespace or in all.
type Rule struct {
	Namespace   string // "" for all, and for what is in none
	Group       string // "" for the core group
	Resource    string // plural
	Subresource string
	Name        string   // of the one object; "" for all
	Verbs       []string // in the order of [Verbs]
	Uses        []string // such as "patch: add and remove the finalizer"
	OnlyIf      string   // the condition under which the rule is needed; "" for always
}

// Path returns the resource with its subresource, as in a Role: pods/status.
func (r Rule) Path() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}

// Has reports whether the rule lets a verb be used on an object, on all of a namespace if there is no name,
// or on all that there are if there is no namespace either.
func (r Rule) Has(verb, group, resource, namespace, name string) bool {
	within := func(of, what string) bool { return of == "" || of == what }
	return r.Subresource == "" && r.Group == group && r.Resource == resource && slices.Contains(r.Verbs, verb) &&
		within(r.Namespace, namespace) && within(r.Name, name)
}

// AccountRules returns what the service account of a plugin needs for what the manifest asks
// for and the entries allow, in the namespaces to which the plugin is restricted, nil for all.
// A kind of which resources does not know how it is served has no rules. Secrets are those
// with the credentials of other systems.
//
// By some of them the host decides what the plugin may read in the cache. By the others
// the API server decides what the host sends as the account: writes, and the reads around them.
func (all Entries) AccountRules(m *abi.Manifest, namespaces []string, resources Resources, secrets ...SecretRef) []Rule {
	return sorted(rules(only(append(all.grants(m, namespaces, resources), secretGrants(secrets)...), checked, sent, implied)))
}

// Acting is how the host acts as accounts of plugins.
type Acting struct {
	// Constrained is whether it may use an account for nothing but what it sends, by constrained
	// impersonation (KEP-5284), which not every API server has.
	Constrained bool
	// Local is whether it asks what an account may do in each namespace by itself.
	Local bool
}

// HostRules returns what the account of the host needs for a plugin that acts as another
// account, beside [Entries.AccountRules]. For the zero Account, with which the plugin acts as the
// host, they are all rules that there are.
func (all Entries) HostRules(m *abi.Manifest, account Account, by Acting, namespaces []string, resources Resources, secrets ...SecretRef) []Rule {
	grants := append(all.grants(m, namespaces, resources), secretGrants(secrets)...)
	if account == (Account{}) {
		return sorted(rules(only(grants, followed, sent, implied)))
	}
	own := append(only(grants, followed, lost), account.impersonation(by.Constrained)...)
	own = append(own, account.reviews(by.Local, only(grants, checked, sent, implied))...)
	if by.Constrained {
		for _, g := range only(grants, sent) {
			g.verb, g.use = impersonateOn+g.verb, "what is sent as "+account.String()
			own = append(own, g)
		}
	}
	return sorted(rules(own))
}

// Requested returns what the host needs for a plugin that acts as the host and whose policy
// allows everything, in the order of the manifest.
func Requested(m *abi.Manifest, resources Resources) []Rule {
	return rules(only(Everything().grants(m, nil, resources), followed, sent, implied))
}

// The verbs of constrained impersonation: of a service account, and of a request as one. See
// k8s.io/apiserver/pkg/endpoints/filters/impersonation.
const (
	ImpersonateConstrained = "impersonate:serviceaccount"
	impersonateOn          = "impersonate-on:serviceaccount:"
)

// Impersonate is the verb of a right to do all that a service account may do.
const Impersonate = "impersonate"

// impersonation returns what the host needs to act as the account, whatever the plugin does.
func (a Account) impersonation(constrained bool) []grant {
	at := target{namespace: a.Namespace, resource: "serviceaccounts", name: a.Name}
	all := []grant{{target: at, verb: Get, use: "find out whether the account exists"}}
	if !constrained {
		return append(all, grant{target: at, verb: Impersonate, use: "act as the account"})
	}
	at.group = "authentication.k8s.io"
	return append(all, grant{target: at, verb: ImpersonateConstrained, use: "act as the account, for the requests that impersonate-on allows"})
}

// reviews returns what the host needs to ask what the account may do, of which it needs some.
func (a Account) reviews(local bool, needs []grant) (all []grant) {
	for _, need := range needs {
		at := target{group: "authorization.k8s.io", resource: "subjectaccessreviews"}
		if local && need.namespace != "" {
			at.namespace, at.resource = need.namespace, "localsubjectaccessreviews"
		}
		if g := (grant{target: at, verb: Create, use: "find out what " + a.String() + " may read"}); !slices.Contains(all, g) {
			all = append(all, g)
		}
	}
	return all
}

// only returns the grants that are for one of the reasons.
func only(grants []grant, reasons ...reason) (some []grant) {
	for _, g := range grants {
		if slices.Contains(reasons, g.reason) {
			some = append(some, g)
		}
	}
	return some
}

// rules returns rules with the grants, in the order of the first of each. What is granted in all
// namespaces is not repeated for one.
func rules(grants []grant) (all []Rule) {
	everywhere := map[target][]string{} // verbs
	for _, g := range grants {
		if g.namespace == "" {
			everywhere[g.target] = append(everywhere[g.target], g.verb)
		}
	}
	known, uses := map[target]int{}, map[target][]use{}
	for _, g := range grants {
		at := g.target
		at.namespace = ""
		if !slices.Contains(everywhere[at], g.verb) {
			at = g.target
		}
		i, ok := known[at]
		if !ok {
			i = len(all)
			known[at] = i
			all = append(all, Rule{at.namespace, at.group, at.resource, at.subresource, at.name, nil, nil, ""})
			if at.subresource == finalizers {
				all[i].OnlyIf = ownerEnforcement
			}
		}
		all[i].Verbs = withVerb(all[i].Verbs, g.verb)
		uses[at] = withUse(uses[at], g)
	}
	for at, i := range known {
		for _, u := range uses[at] {
			all[i].Uses = append(all[i].Uses, strings.Join(u.verbs, ", ")+": "+u.text)
		}
	}
	return all
}

// use is what some verbs are used for.
type use struct {
	text  string
	verbs []string
}

func withUse(uses []use, g grant) []use {
	i := slices.IndexFunc(uses, func(u use) bool { return u.text == g.use })
	if i < 0 {
		i, uses = len(uses), append(uses, use{text: g.use})
	}
	uses[i].verbs = withVerb(uses[i].verbs, strings.TrimPrefix(g.verb, impersonateOn))
	return uses
}

// withVerb adds a verb, unless it is there, in its place.
func withVerb(verbs []string, verb string) []string {
	if slices.Contains(verbs, verb) {
		return verbs
	}
	verbs = append(slices.Clone(verbs), verb)
	slices.SortFunc(verbs, CompareVerbs)
	return verbs
}

// CompareVerbs orders verbs as [Verbs] does, and after these all others.
func CompareVerbs(a, b string) int {
	rank := func(verb string) int {
		base, on := strings.CutPrefix(verb, impersonateOn)
		i := slices.Index(Verbs(), base)
		if i < 0 || on {
			i += 2 * len(Verbs())
		}
		return i
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
}

func sorted(rules []Rule) []Rule {
	slices.SortFunc(rules, func(a, b Rule) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Group, b.Group),
			strings.Compare(a.Resource, b.Resource), strings.Compare(a.Subresource, b.Subresource), strings.Compare(a.Name, b.Name))
	})
	return rules
}
