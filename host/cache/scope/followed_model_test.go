package scope

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
)

var drawSelector = rapid.Custom(func(t *rapid.T) abi.Selector {
	s := abi.Selector{
		LabelSelector: rapid.SampledFrom([]string{
			"", "a", "a=1", "a==1", "a in (1,2)", "a!=1", "!a", "a>1", "a=1,b", "b,a=1", abi.LabelManagedBy, abi.LabelManagedBy + "=p",
		}).Draw(t, "labels"),
		FieldSelector: rapid.SampledFrom([]string{
			"", "", "", "", "", "", "", "", "", "", // most manifests are to be legal
			"metadata.name=x", "metadata.name!=x", "metadata.name!=x,metadata.name!=x", "metadata.namespace=n", "metadata.name=x,metadata.namespace!=m",
			"status.phase=Running", "metadata.name=x,status.phase==Running", "status.phase=Running,metadata.name=x", "status.phase=Running,status.phase=Running",
		}).Draw(t, "fields"),
		MetadataOnly: rapid.Bool().Draw(t, "metadata"),
	}
	if some := rapid.SliceOfNDistinct(rapid.SampledFrom(namespaces), 0, 3, rapid.ID).Draw(t, "namespaces"); len(some) > 0 {
		s.Namespaces = some
	}
	return s
})

// drawManifest draws one that need not be legal: a field selector may not go with others.
var drawManifest = rapid.Custom(func(t *rapid.T) *abi.Manifest {
	kinds := []abi.Kind{pod, {APIVersion: "v1", Kind: "Node"}, {APIVersion: "v1", Kind: "Secret"}}
	drawKind := rapid.SampledFrom(kinds)
	entries := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) abi.Followed {
		return selecting(drawKind.Draw(t, "kind"), drawSelector.Draw(t, "selector"))
	}), 0, 3)
	m := &abi.Manifest{Name: "p"}
	if rapid.Bool().Draw(t, "managed") {
		m.Managed = true
	}
	for range rapid.IntRange(1, 3).Draw(t, "controllers") {
		c := abi.Controller{
			Name: "c", For: selecting(drawKind.Draw(t, "for"), drawSelector.Draw(t, "selector")), Reads: entries.Draw(t, "reads"),
			Writes: rapid.SliceOfNDistinct(drawKind, 0, 3, rapid.ID).Draw(t, "writes"),
		}
		for _, kind := range rapid.SliceOfNDistinct(drawKind, 0, 3, rapid.ID).Draw(t, "owns") {
			c.Owns = append(c.Owns, selecting(kind, abi.Selector{MetadataOnly: rapid.Bool().Draw(t, "metadata")}))
		}
		for _, w := range entries.Draw(t, "watches") {
			c.Watches = append(c.Watches, abi.Watch{Followed: w})
		}
		m.Controllers = append(m.Controllers, c)
	}
	return m
})

// A run reads nothing of an informer that does not have all that its revision follows. So
// those of the revision have it, whatever its manifest and the policy are.
func TestWhatAPluginFollowsHasAllThatItsControllersRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var allowed []string // by the policy, or by the host
		if some := rapid.SliceOfNDistinct(rapid.SampledFrom(namespaces), 0, 3, rapid.ID).Draw(t, "allowed"); len(some) > 0 {
			allowed = some
		}
		var p *Plugin
		drawManifest.Filter(func(m *abi.Manifest) (legal bool) {
			var err error
			p, err = OfManifest(m, allowed)
			return err == nil
		}).Draw(t, "legal manifest")
		of := func(all []Scope, kind abi.Kind) *Scope {
			if i := slices.IndexFunc(all, func(s Scope) bool { return s.Kind == kind }); i >= 0 {
				return &all[i]
			}
			return nil
		}
		for _, c := range p.Controllers {
			for kind, reads := range c.Reads {
				if s := of(p.Followed, kind); s == nil || !reads.AreIn(*s) {
					t.Fatalf("of %s %v is followed, and %v may be read", kind, s, reads)
				}
			}
			for _, s := range slices.Concat([]Scope{c.For}, c.Owns, c.Watches) {
				if !of(p.Followed, s.Kind).Covers(s) || !slices.ContainsFunc(c.Reads[s.Kind], func(r Scope) bool { return r.Covers(s) }) {
					t.Fatalf("%s is neither in %s nor in %v", s, of(p.Followed, s.Kind), c.Reads[s.Kind])
				}
			}
		}
	})
}
