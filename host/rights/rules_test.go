package rights

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// served is how the tests' kinds are served: the resource is the kind.
func served(kind abi.Kind) (object.Resource, bool) {
	r, _ := resources(kind)
	r.GVR.Group, r.GVR.Resource = kind.Group(), strings.ToLower(kind.Kind)
	return r, true
}

func short(rules []Rule) (all []string) {
	for _, r := range rules {
		at := strings.TrimPrefix(r.Group+"/", "/") + r.Path()
		if r.Name != "" {
			at += " " + r.Name
		}
		if r.Namespace != "" {
			at = r.Namespace + ": " + at
		}
		all = append(all, at+" "+strings.ReplaceAll(strings.Join(r.Verbs, ","), impersonateOn, "on:"))
	}
	return all
}

func expectRules(t *testing.T, what string, rules []Rule, want ...string) {
	t.Helper()
	if have := short(rules); !slices.Equal(have, want) {
		t.Errorf("%s\n  %s\nwant\n  %s", what, strings.Join(have, "\n  "), strings.Join(want, "\n  "))
	}
}

var actor = Account{"team", "robot"}

func TestRulesOfAnAccountAndItsHost(t *testing.T) {
	in := func(kind abi.Kind, namespaces ...string) abi.Followed {
		w := kind.All()
		w.Namespaces = namespaces
		return w
	}
	for name, c := range map[string]struct {
		manifest      abi.Manifest
		entries       Entries
		namespaces    []string
		account, host []string
	}{
		"everywhere": {
			manifest: abi.Manifest{Controllers: []abi.Controller{{For: widget.All(), Owns: abi.AllOf(configMap), Finalizer: true}}},
			account: []string{
				"configmap get,list,watch,create,patch,delete",
				"example.com/widget get,list,patch", "example.com/widget/finalizers update", "example.com/widget/status patch",
			},
			host: []string{
				"configmap get,list,watch,on:get,on:create,on:patch,on:delete", "events create,patch",
				"authorization.k8s.io/subjectaccessreviews create",
				"example.com/widget get,list,watch,on:get,on:patch", "example.com/widget/status on:patch",
				"team: serviceaccounts robot get", "team: authentication.k8s.io/serviceaccounts robot impersonate:serviceaccount",
			},
		},
		"in the namespaces of the manifest": {
			manifest: abi.Manifest{Controllers: []abi.Controller{{For: in(widget, "b"), Owns: abi.AllOf(configMap), Reads: []abi.Followed{in(deployment, "b", "c")}}}},
			account: []string{
				"b: configmap get,list,watch,create,patch,delete", "b: apps/deployment get,list",
				"b: example.com/widget get,list,patch", "b: example.com/widget/finalizers update", "b: example.com/widget/status patch",
			},
			host: []string{
				"configmap list,watch", "authorization.k8s.io/subjectaccessreviews create", // it follows what is owned everywhere
				"b: configmap get,on:get,on:create,on:patch,on:delete", "b: events create,patch", "b: apps/deployment list,watch",
				"b: example.com/widget get,list,watch,on:get,on:patch", "b: example.com/widget/status on:patch",
				"c: apps/deployment list,watch",
				"team: serviceaccounts robot get", "team: authentication.k8s.io/serviceaccounts robot impersonate:serviceaccount",
			},
		},
		"in the namespaces of the policy": {
			manifest: abi.Manifest{Managed: true, Controllers: []abi.Controller{{
				For: configMap.All(), Owns: abi.AllOf(deployment), Writes: []abi.Kind{secret, space}, Watches: []abi.Watch{{Followed: secret.All()}},
			}}},
			entries: Entries{
				{Groups: []string{""}, Kinds: []string{"ConfigMap"}, Verbs: []string{Get, List, Watch}},
				{Groups: []string{""}, Kinds: []string{"Secret"}, Verbs: []string{Get, List, Watch, Create, Patch}, Namespaces: []string{"vault", "a"}},
				{Groups: []string{""}, Kinds: []string{"Namespace"}, Verbs: []string{Delete}},
			},
			namespaces: []string{"a"},
			account: []string{
				"namespace get,delete",
				"a: configmap get,list", "a: configmap/finalizers update", "a: secret get,list,watch,create,patch",
				"a: apps/deployment get,list,watch,create,patch,delete",
			},
			host: []string{
				"namespace get,list,watch,on:get,on:delete", "authorization.k8s.io/subjectaccessreviews create",
				"a: configmap get,list,watch,on:get", "a: events create,patch", "a: secret get,list,watch,on:get,on:create,on:patch",
				"a: apps/deployment get,list,watch,on:get,on:list,on:create,on:patch,on:delete",
				"team: serviceaccounts robot get", "team: authentication.k8s.io/serviceaccounts robot impersonate:serviceaccount",
			},
		},
		"of cluster-scoped primaries": {
			manifest: abi.Manifest{Controllers: []abi.Controller{{For: cluster.All(), Owns: abi.AllOf(configMap, space), Reads: abi.AllOf(secret)}}},
			entries: Entries{
				{Groups: []string{"example.com"}, Kinds: []string{"Cluster", "Cluster/status"}, Verbs: []string{Get, List, Watch, Patch}},
				{Groups: []string{""}, Kinds: []string{"ConfigMap"}, Verbs: []string{Any}, Namespaces: []string{"system"}},
				{Groups: []string{""}, Kinds: []string{"Namespace"}, Verbs: []string{Any}},
				{Groups: []string{""}, Kinds: []string{"Secret"}, Verbs: []string{Get, List, Watch}, Namespaces: []string{Any}},
			},
			account: []string{
				"namespace get,list,watch,create,patch,delete", "secret get,list",
				"example.com/cluster get,list,patch", "example.com/cluster/finalizers update", "example.com/cluster/status patch",
				"system: configmap get,list,watch,create,patch,delete",
			},
			host: []string{
				"configmap list,watch", // as it is what a namespaced primary may have without an entry
				"namespace get,list,watch,on:get,on:create,on:patch,on:delete", "secret list,watch", "authorization.k8s.io/subjectaccessreviews create",
				"example.com/cluster get,list,watch,on:get,on:patch", "example.com/cluster/status on:patch",
				"default: events create,patch",
				"system: configmap get,on:get,on:create,on:patch,on:delete",
				"team: serviceaccounts robot get", "team: authentication.k8s.io/serviceaccounts robot impersonate:serviceaccount",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !c.entries.Suffice(Asked{Manifest: &c.manifest, Resources: served}) {
				t.Fatal("the entries do not allow it")
			}
			expectRules(t, "account", c.entries.AccountRules(&c.manifest, c.namespaces, served), c.account...)
			expectRules(t, "host", c.entries.HostRules(&c.manifest, actor, Acting{Constrained: true}, c.namespaces, served), c.host...)
		})
	}
}

func TestRulesWithoutConstrainedImpersonation(t *testing.T) {
	m := &abi.Manifest{Controllers: []abi.Controller{{For: widget.All()}}}
	expectRules(t, "host", Entries(nil).HostRules(m, actor, Acting{}, nil, served),
		"events create,patch", "authorization.k8s.io/subjectaccessreviews create", "example.com/widget get,list,watch", "team: serviceaccounts robot get,impersonate")
	expectRules(t, "of the host itself", Entries(nil).HostRules(m, Account{}, Acting{Constrained: true}, nil, served),
		"events create,patch", "example.com/widget get,list,watch,patch", "example.com/widget/status patch")
	credentials := SecretRef{"vault", "api"}
	expectRules(t, "in namespaces", Entries(nil).HostRules(m, actor, Acting{Local: true}, []string{"a", "b"}, served, credentials),
		"a: events create,patch", "a: authorization.k8s.io/localsubjectaccessreviews create", "a: example.com/widget get,list,watch",
		"b: events create,patch", "b: authorization.k8s.io/localsubjectaccessreviews create", "b: example.com/widget get,list,watch",
		"team: serviceaccounts robot get,impersonate", "vault: authorization.k8s.io/localsubjectaccessreviews create")
	expectRules(t, "of the account with Secrets", Entries(nil).AccountRules(m, nil, served, credentials),
		"example.com/widget get,list,patch", "example.com/widget/status patch", "vault: secrets api get")
	expectRules(t, "with Secrets", Entries(nil).HostRules(m, actor, Acting{Constrained: true}, nil, served, credentials),
		"events create,patch", "authorization.k8s.io/subjectaccessreviews create", "example.com/widget get,list,watch,on:get,on:patch", "example.com/widget/status on:patch",
		"team: serviceaccounts robot get", "team: authentication.k8s.io/serviceaccounts robot impersonate:serviceaccount", "vault: secrets api on:get")
	expectRules(t, "of the host itself with Secrets", Entries(nil).HostRules(m, Account{}, Acting{Constrained: true}, nil, served, credentials),
		"events create,patch", "example.com/widget get,list,watch,patch", "example.com/widget/status patch", "vault: secrets api get")
	unknown := func(abi.Kind) (object.Resource, bool) { return object.Resource{}, false }
	expectRules(t, "of a kind that is not known", Entries(nil).AccountRules(m, nil, unknown))
}

// namespaces of the property: those of drawEntries and drawManifest, and any other.
var everyNamespace = []string{"a", "b", "c", "other"}

// An account has each right of what its plugin may do, in each namespace, and no other.
func TestAccountRulesAreWhatThePluginMayDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, all := drawManifest.Draw(t, "manifest"), drawEntries.Draw(t, "entries")
		if rapid.Bool().Draw(t, "managed") {
			m.Managed = true
		}
		if !all.Suffice(Asked{Manifest: m, Resources: served}) {
			all = all.CompletedFor(Asked{Manifest: m, Resources: served})
		}
		namespaces := rapid.SampledFrom([][]string{nil, {"a"}, {"b", "c"}}).Draw(t, "namespaces")
		for _, c := range all.Narrow(m).Controllers {
			for w := range c.Follows() {
				if in := both(w.Namespaces, namespaces); len(w.Namespaces) > 0 && len(in) == 0 {
					t.Skip("the host refuses a plugin that may follow nothing of a kind")
				}
			}
		}
		rules := all.AccountRules(m, namespaces, served)
		for _, kind := range kinds {
			for _, sub := range []string{"", Status, finalizers} {
				for _, verb := range append(Verbs(), update) {
					in := everyNamespace
					if !isNamespaced(kind) {
						in = []string{""}
					}
					for _, namespace := range in {
						want := may(all, m, namespaces, kind, sub, verb, namespace)
						if have := granted(rules, kind, sub, verb, namespace); have != want {
							t.Fatalf("%s of %s/%s in %q: %t, want %t\n%+v\n%s\nin %v:\n%s", verb, kind, sub, namespace, have, want, m.Controllers, all, namespaces, strings.Join(short(rules), "\n"))
						}
					}
				}
			}
		}
	})
}

func granted(rules []Rule, kind abi.Kind, sub, verb, namespace string) bool {
	r, _ := served(kind)
	return slices.ContainsFunc(rules, func(rule Rule) bool {
		return rule.Group == r.GVR.Group && rule.Resource == r.GVR.Resource && rule.Subresource == sub && slices.Contains(rule.Verbs, verb) &&
			(rule.Namespace == "" || rule.Namespace == namespace)
	})
}

// may reports whether a plugin uses a verb on some object of a namespace, for some primary.
func may(all Entries, m *abi.Manifest, namespaces []string, kind abi.Kind, sub, verb, namespace string) bool {
	in := func(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }
	managed := m.Managed
	for _, c := range all.Narrow(m).Controllers {
		owns := everyNamespace
		if !isNamespaced(c.For.Kind) {
			owns = []string{""}
		}
		for _, own := range owns {
			if own != "" && !(in(c.For.Namespaces, own) && in(namespaces, own)) {
				continue
			}
			n := usesOf{all, &c, kind, namespaces, namespace, own}
			if kind == c.For.Kind && namespace == own && n.ofPrimary(sub, verb) {
				return true
			}
			if sub == "" && (n.reads(verb) || n.writes(verb)) {
				return true
			}
		}
		labels := managed && c.IsOwned(kind) && sub == "" && verb == List
		if labels && (!isNamespaced(kind) || in(namespaces, namespace)) {
			return true
		}
	}
	return false
}

// usesOf is what one primary uses of a kind in a namespace.
type usesOf struct {
	all            Entries
	c              *abi.Controller
	kind           abi.Kind
	namespaces     []string
	namespace, own string
}

func (u usesOf) ofPrimary(sub, verb string) bool {
	r, _ := served(u.kind)
	switch verb {
	case Get:
		return sub == ""
	case update:
		return sub == finalizers && len(u.c.Owns) > 0
	case Patch:
		return (sub == "" || sub == Status && r.Status) && u.all.PatchesPrimary(u.kind, sub, u.own)
	}
	return false
}

func (u usesOf) inPolicy() bool {
	return u.namespace == "" || u.namespaces == nil || slices.Contains(u.namespaces, u.namespace)
}

func (u usesOf) reads(verb string) bool {
	entries := append([]abi.Followed{u.c.For}, u.c.Reads...)
	if verb == Watch {
		entries = nil
	}
	entries = append(entries, u.c.Owns...)
	for _, w := range u.c.Watches {
		entries = append(entries, w.Followed)
	}
	return slices.Contains(reading, verb) && u.inPolicy() && slices.ContainsFunc(entries, func(w abi.Followed) bool {
		followed := u.namespace == "" || len(w.Namespaces) == 0 || slices.Contains(w.Namespaces, u.namespace)
		return w.Kind == u.kind && followed && u.all.Followed(u.kind, verb).Has(u.namespace != "", u.namespace, u.own)
	})
}

func (u usesOf) writes(verb string) bool {
	if verb == Get { // before a write
		return slices.ContainsFunc(writing, u.writes)
	}
	if !slices.Contains(writing, verb) || !u.inPolicy() {
		return false
	}
	owned := u.c.IsOwned(u.kind) && (u.own == "" || u.own == u.namespace) && u.all.Followed(u.kind, verb).Has(u.namespace != "", u.namespace, u.own)
	return owned || slices.Contains(u.c.Writes, u.kind) && u.all.Reach(u.kind, "", verb).Has(u.namespace != "", u.namespace, u.own)
}

func TestWhatARuleLetsBeUsed(t *testing.T) {
	all := Rule{Group: "g", Resource: "r", Verbs: []string{Get, List}}
	in, named, sub := all, all, all
	in.Namespace, named.Name, sub.Subresource = "n", "x", "status"
	for _, test := range []struct {
		rule                                   Rule
		verb, group, resource, namespace, name string
		want                                   bool
	}{
		{all, Get, "g", "r", "n", "x", true},
		{all, List, "g", "r", "", "", true},
		{all, Watch, "g", "r", "", "", false},
		{all, Get, "", "r", "", "", false},
		{all, Get, "g", "s", "", "", false},
		{in, Get, "g", "r", "n", "x", true},
		{in, Get, "g", "r", "m", "x", false},
		{in, List, "g", "r", "", "", false},
		{named, Get, "g", "r", "n", "x", true},
		{named, Get, "g", "r", "n", "y", false},
		{named, List, "g", "r", "n", "", false},
		{sub, Get, "g", "r", "n", "x", false},
	} {
		if got := test.rule.Has(test.verb, test.group, test.resource, test.namespace, test.name); got != test.want {
			t.Errorf("%+v lets %s %s/%s %s/%s: %v", test.rule, test.verb, test.group, test.resource, test.namespace, test.name, got)
		}
	}
}
