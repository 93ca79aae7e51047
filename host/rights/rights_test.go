package rights

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

var (
	widget     = abi.Kind{APIVersion: "example.com/v1", Kind: "Widget"}
	cluster    = abi.Kind{APIVersion: "example.com/v1", Kind: "Cluster"}
	configMap  = abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}
	secret     = abi.Kind{APIVersion: "v1", Kind: "Secret"}
	account    = abi.Kind{APIVersion: "v1", Kind: "ServiceAccount"}
	space      = abi.Kind{APIVersion: "v1", Kind: "Namespace"}
	role       = abi.Kind{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}
	binding    = abi.Kind{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"}
	deployment = abi.Kind{APIVersion: "apps/v1", Kind: "Deployment"}
	kinds      = []abi.Kind{widget, cluster, configMap, secret, account, space, role, binding, deployment}
)

func isNamespaced(kind abi.Kind) bool {
	return !slices.Contains([]abi.Kind{cluster, space, binding}, kind)
}

func resources(kind abi.Kind) (object.Resource, bool) {
	return object.Resource{Kind: kind, Namespaced: isNamespaced(kind), Status: kind == widget || kind == cluster}, true
}

// What a plugin has without an entry is written here once more, as a table.
func TestWhatNeedsNoEntry(t *testing.T) {
	none := Entries(nil)
	for _, kind := range kinds {
		free := kind == widget || kind == configMap || kind == deployment || kind == cluster || kind == space
		for _, verb := range Verbs() {
			reach := none.Followed(kind, verb)
			if got := reach.Has(true, "a", "a"); got != free {
				t.Errorf("%s of a namespaced %s in the namespace of the primary: %t", verb, kind, got)
			}
			for what, got := range map[string]bool{
				"in another namespace":                 reach.Has(true, "b", "a"),
				"of a cluster-scoped kind":             reach.Has(false, "", "a"),
				"for a cluster-scoped primary":         reach.Has(true, "a", ""),
				"without a namespace":                  reach.Has(true, "", ""),
				"of both cluster-scoped":               reach.Has(false, "", ""),
				"as writes":                            none.Reach(kind, "", verb).Has(true, "a", "a"),
				"as writes of a cluster-scoped object": none.Reach(kind, "", verb).Has(false, "", ""),
			} {
				if got {
					t.Errorf("%s of %s is allowed %s", verb, kind, what)
				}
			}
		}
		for _, sub := range []string{"", Status} {
			if got, want := none.PatchesPrimary(kind, sub, "a"), kind == widget || kind == cluster; got != want {
				t.Errorf("patch of a primary %s %s: %t", kind, sub, got)
			}
			if none.PatchesPrimary(kind, sub, "") {
				t.Errorf("patch of a cluster-scoped primary %s %s is allowed", kind, sub)
			}
		}
	}
}

func TestCustomKindsAreNotThoseOfKubernetes(t *testing.T) {
	for version, want := range map[string]bool{
		"v1": false, "apps/v1": false, "batch/v1": false, "rbac.authorization.k8s.io/v1": false, "networking.k8s.io/v1": false,
		"metrics.k8s.io/v1beta1": false, "gateway.networking.k8s.io/v1": false, "x.kubernetes.io/v1": false, "k8s.io/v1": false,
		"example.com/v1": true, "notk8s.io/v1": true, "k8s.io.example.com/v1": true,
	} {
		if got := Custom(abi.Kind{APIVersion: version, Kind: "X"}); got != want {
			t.Errorf("%s: %t", version, got)
		}
	}
}

func TestEntryAllowsNothingElse(t *testing.T) {
	e := Entries{{Groups: []string{"apps", "batch"}, Kinds: []string{"Deployment", "Job/status"}, Verbs: []string{"get", "patch"}, Namespaces: []string{"a"}}}
	for _, c := range []struct {
		kind abi.Kind
		sub  string
		verb string
		want bool
	}{
		{deployment, "", "get", true},
		{abi.Kind{APIVersion: "apps/v1beta1", Kind: "Deployment"}, "", "patch", true}, // of every version
		{deployment, "", "delete", false},
		{deployment, Status, "patch", false},
		{abi.Kind{APIVersion: "batch/v1", Kind: "Job"}, Status, "patch", true},
		{abi.Kind{APIVersion: "batch/v1", Kind: "Job"}, "", "patch", false},
		{abi.Kind{APIVersion: "v1", Kind: "Deployment"}, "", "get", false},
	} {
		r := e.Reach(c.kind, c.sub, c.verb)
		if r.Has(true, "a", "z") != c.want || r.Has(true, "z", "z") || r.Has(false, "", "") {
			t.Errorf("%s of %s %s: %+v", c.verb, c.kind, c.sub, r)
		}
	}
}

func TestNamespacesOfAnEntry(t *testing.T) {
	of := func(namespaces ...string) Reach { return Entry{Namespaces: namespaces}.reach() }
	for _, c := range []struct {
		name           string
		reach          Reach
		own, other     bool
		cluster, list  bool
		wantNamespaces string
	}{
		{"none", of(), true, false, true, true, "[own]"},
		{"named", of("a", "other"), false, true, false, true, "[a other]"},
		{"own by its name", of("own"), true, false, false, true, "[own]"},
		{"any", of(Any), true, true, true, true, "all"},
		{"any and named", of("a", Any), true, true, true, true, "all"},
		{"own and named", of().Or(of("other")), true, true, true, true, "[other own]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.reach.Has(true, "own", "own") != c.own || c.reach.Has(true, "other", "own") != c.other || c.reach.Has(false, "", "own") != c.cluster {
				t.Errorf("%+v", c.reach)
			}
			got := "all"
			if namespaces := c.reach.Namespaces("own"); namespaces != nil {
				got = fmt.Sprint(namespaces)
			}
			if got != c.wantNamespaces {
				t.Errorf("namespaces %s, want %s", got, c.wantNamespaces)
			}
		})
	}
	if got := of().Namespaces(""); got == nil || len(got) != 0 {
		t.Errorf("a cluster-scoped primary has the namespaces %v", got)
	}
}

var drawEntry = rapid.Custom(func(t *rapid.T) Entry {
	some := func(label string, from ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(from), 1, 2, rapid.ID).Draw(t, label)
	}
	e := Entry{
		Groups: some("groups", "", "apps", "example.com", Any), Kinds: some("kinds", "ConfigMap", "Widget", "Widget/status", "Secret", Any),
		Verbs: some("verbs", append(Verbs(), Any)...),
	}
	if rapid.Bool().Draw(t, "bounded") {
		e.Namespaces = some("namespaces", "a", "b", Any)
	}
	return e
})

var drawEntries = rapid.Custom(func(t *rapid.T) Entries { return rapid.SliceOfN(drawEntry, 0, 4).Draw(t, "entries") })

// If entries cover others, whatever those allow they allow, too.
func TestCoveredEntriesAllowNoMore(t *testing.T) {
	covered := 0
	rapid.Check(t, func(t *rapid.T) {
		ceiling, e := drawEntries.Draw(t, "ceiling"), drawEntry.Draw(t, "entry")
		if len(ceiling) > 0 && rapid.Bool().Draw(t, "narrower") { // in some or all of its lists
			above := rapid.SampledFrom(ceiling).Draw(t, "above")
			part := func(all, other []string) []string {
				return rapid.SampledFrom([][]string{all, all[:min(1, len(all))], other}).Draw(t, "part")
			}
			e = Entry{part(above.Groups, e.Groups), part(above.Kinds, e.Kinds), part(above.Verbs, e.Verbs), part(above.Namespaces, e.Namespaces)}
		}
		if !ceiling.Cover(e) {
			return
		}
		covered++
		for _, kind := range kinds {
			for _, sub := range []string{"", Status} {
				for _, verb := range Verbs() {
					below, above := Entries{e}.Reach(kind, sub, verb), ceiling.Reach(kind, sub, verb)
					for _, namespace := range []string{"", "a", "b", "c"} {
						for _, own := range []string{"", "a", "b", "c"} {
							for _, namespaced := range []bool{false, true} {
								if below.Has(namespaced, namespace, own) && !above.Has(namespaced, namespace, own) {
									t.Fatalf("%s is covered by %s, which does not allow to %s %s %s in %q for %q", e, ceiling, verb, kind, sub, namespace, own)
								}
							}
						}
					}
				}
			}
		}
	})
	if covered == 0 {
		t.Error("no entry was covered")
	}
}

func TestEntriesCoverThemselves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawEntries.Draw(t, "entries")
		for _, e := range all {
			if !all.Cover(e) {
				t.Fatalf("%s does not cover %s", all, e)
			}
		}
	})
}

// And says of no object that it is in both if it is not in one.
func TestReachInBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawEntry.Draw(t, "a").reach().Or(drawEntry.Draw(t, "a2").reach()), drawEntry.Draw(t, "b").reach()
		both := a.And(b)
		for _, namespace := range []string{"", "a", "b", "c"} {
			for _, own := range []string{"", "a", "b", "c"} {
				for _, namespaced := range []bool{false, true} {
					if both.Has(namespaced, namespace, own) && (!a.Has(namespaced, namespace, own) || !b.Has(namespaced, namespace, own)) {
						t.Fatalf("%+v and %+v: %+v has %q for %q", a, b, both, namespace, own)
					}
				}
			}
		}
	})
}

// asked returns what a plugin asks for with a capability that makes calls for no object of the controllers that handle
// objects that are gone, and one that patches those of the controllers that prune.
func asked(m *abi.Manifest) Asked {
	return Asked{Manifest: m, Resources: resources, Uses: func(c *abi.Controller) (use Use) {
		if use.ForNoObject = c.Gone; c.Prune {
			use.Patches = "a record"
		}
		return use
	}}
}

var drawManifest = rapid.Custom(func(t *rapid.T) *abi.Manifest {
	kind := rapid.SampledFrom(kinds)
	followed := rapid.Custom(func(t *rapid.T) abi.Followed {
		w := kind.Draw(t, "kind").All()
		w.Namespaces = rapid.SampledFrom([][]string{nil, {"a"}, {"b", "c"}}).Draw(t, "namespaces")
		return w
	})
	m := &abi.Manifest{Name: "p"}
	for range rapid.IntRange(1, 2).Draw(t, "controllers") {
		c := abi.Controller{
			For: followed.Draw(t, "for"), Reads: rapid.SliceOfN(followed, 0, 2).Draw(t, "reads"), Finalizer: rapid.Bool().Draw(t, "finalizer"),
			Owns:   abi.AllOf(rapid.SliceOfN(kind, 0, 2).Draw(t, "owns")...),
			Writes: rapid.SliceOfN(kind, 0, 2).Draw(t, "writes"),
		}
		c.Gone, c.Prune = rapid.Bool().Draw(t, "for no object"), rapid.Bool().Draw(t, "patches") // see asked
		for _, w := range rapid.SliceOfN(followed, 0, 1).Draw(t, "watches") {
			c.Watches = append(c.Watches, abi.Watch{Followed: w})
		}
		m.Controllers = append(m.Controllers, c)
	}
	return m
})

// What is printed is a policy with which the plugin starts. No entry of it can be left out,
// unless the manifest names namespaces, which the primaries reach only by one of their own.
func TestNeededEntriesAreEnoughAndNotMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawManifest.Draw(t, "manifest")
		needed := Entries(nil).CompletedFor(asked(m))
		if !needed.Suffice(asked(m)) {
			t.Fatalf("%s is not enough", needed)
		}
		if Entries(nil).Suffice(asked(m)) != (len(needed) == 0) {
			t.Fatalf("without entries it is %t that these suffice, and needed are %s", Entries(nil).Suffice(asked(m)), needed)
		}
		named := slices.ContainsFunc(needed, func(e Entry) bool { return len(e.Namespaces) > 0 && e.Namespaces[0] != Any })
		for i := range needed {
			if rest := slices.Delete(slices.Clone(needed), i, i+1); !named && rest.Suffice(asked(m)) {
				t.Fatalf("of %s, %s is not needed", needed, needed[i])
			}
		}
		var read Entries
		if err := yaml.UnmarshalStrict([]byte(needed.String()), &read); err != nil || len(read) != len(needed) ||
			len(needed) > 0 && !read.Equal(needed) {
			t.Fatalf("%s is read as %s, %v", needed, read, err)
		}
	})
}

// A call for no primary has no namespace of its own.
func TestCallsForNoObjectNeedThePrimariesOfAllNamespaces(t *testing.T) {
	for _, c := range []struct {
		of   abi.Followed
		want string
	}{
		{widget.All(), `[{groups: [example.com], kinds: [Widget], verbs: [get, list, watch], namespaces: ['*']}]`},
		{abi.Followed{Kind: widget, Selector: abi.Selector{Namespaces: []string{"b", "a"}}}, `[{groups: [example.com], kinds: [Widget], verbs: [get, list, watch], namespaces: [a, b]}]`},
	} {
		m := &abi.Manifest{Controllers: []abi.Controller{{For: c.of, Gone: true}}}
		if got := Entries(nil).CompletedFor(asked(m)).String(); got != c.want {
			t.Errorf("needed are %s, want %s", got, c.want)
		}
		m.Controllers[0].Gone = false
		if !Entries(nil).Suffice(asked(m)) {
			t.Error("without them something is missing")
		}
	}
}

func TestWhatPatchesPrimariesNeedsThatRight(t *testing.T) {
	node := abi.Kind{APIVersion: "v1", Kind: "Node"}
	of := func(prune bool) string {
		m := &abi.Manifest{Controllers: []abi.Controller{{For: node.All(), Prune: prune}}}
		return Entries(nil).CompletedFor(asked(m)).String()
	}
	if with, without := of(true), of(false); !strings.Contains(with, Patch) || strings.Contains(without, Patch) {
		t.Errorf("needed are %s, and without it %s", with, without)
	}
}

func TestCompletedEntriesAreEnoughAndKeepTheOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, all := drawManifest.Draw(t, "manifest"), drawEntries.Draw(t, "entries")
		completed := all.CompletedFor(asked(m))
		if !completed.Suffice(asked(m)) || !slices.EqualFunc(completed[:len(all)], all, func(a, b Entry) bool { return Entries{a}.Equal(Entries{b}) }) {
			t.Fatalf("%s completes %s", completed, all)
		}
		if all.Suffice(asked(m)) && len(completed) > len(all) {
			t.Fatalf("%s completes %s, which was enough", completed, all)
		}
	})
}

// Nothing is followed in a namespace in which no primary may read it.
func TestNarrowedManifestFollowsWhatMayBeRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, all := drawManifest.Draw(t, "manifest"), drawEntries.Draw(t, "entries")
		if !all.Suffice(asked(m)) {
			return
		}
		before := fmt.Sprintf("%+v", m)
		narrowed := all.Narrow(m)
		for i := range narrowed.Controllers {
			c := &narrowed.Controllers[i]
			for w := range c.Follows() {
				if r := all.Followed(w.Kind, Watch); isNamespaced(w.Kind) && len(w.Namespaces) == 0 && !r.All && !r.Own {
					t.Fatalf("%s is followed everywhere, and may be watched in %+v", w.Kind, r)
				}
			}
			if w := c.For; isNamespaced(w.Kind) && !Custom(w.Kind) && len(w.Namespaces) == 0 {
				if r := all.Reach(w.Kind, "", Watch); !r.All && !r.Own {
					t.Fatalf("primaries of %s are followed everywhere, and may be watched in %+v", w.Kind, r)
				}
			}
		}
		if after := fmt.Sprintf("%+v", m); after != before {
			t.Fatalf("the manifest has changed from %s to %s", before, after)
		}
	})
}

func TestNamesThatYAMLReadsOtherwiseAreQuoted(t *testing.T) {
	for name, want := range map[string]string{
		"": "''", "*": "'*'", "apps": "apps", "Deployment/status": "Deployment/status", "no": "'no'", "Null": "'Null'", "1e3": "'1e3'", "a: b": "'a: b'", "it's": "'it''s'", "y": "'y'", "example.com": "example.com",
	} {
		if got := Quote(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
		var read []string
		if err := yaml.Unmarshal([]byte("["+Quote(name)+"]"), &read); err != nil || read[0] != name {
			t.Errorf("%q is read as %q, %v", name, read, err)
		}
	}
}
