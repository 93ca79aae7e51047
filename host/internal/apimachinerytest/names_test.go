//go:build unix

package apimachinerytest

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

// TestNamesAreDNSLabels has names of primaries that the API server accepts, and any
// parts and prefixes.
func TestNamesAreDNSLabels(t *testing.T) {
	plugin := loadValues(t)
	label := `[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?`
	primaries := rapid.StringMatching(label + `(\.` + label + `){0,2}`)
	texts := rapid.OneOf(rapid.String(), anyText, rapid.StringMatching(label))
	rapid.Check(t, func(t *rapid.T) {
		s := spec{
			Parts:    rapid.SliceOf(rapid.SliceOfN(texts, 0, 3)).Draw(t, "parts"),
			Prefixes: rapid.SliceOf(texts).Draw(t, "prefixes"),
		}
		out := plugin.compute(t, primaries.Draw(t, "primary"), s)
		if len(out.ChildNames) != len(s.Parts) || len(out.UniqueNames) != len(s.Prefixes) {
			t.Fatalf("%d and %d names of %d and %d", len(out.ChildNames), len(out.UniqueNames), len(s.Parts), len(s.Prefixes))
		}
		for _, name := range slices.Concat(out.ChildNames, out.UniqueNames) {
			if wrong := validation.IsDNS1123Label(name); wrong != nil {
				t.Fatalf("%q: %q", name, wrong)
			}
		}
	})
}

// TestChildNamesAreTheSameUnderTinyGo has some names of the test in package sdk.
func TestChildNamesAreTheSameUnderTinyGo(t *testing.T) {
	out := loadValues(t).compute(t, "shop", spec{Parts: [][]string{{"web", "0"}, {"a-b", "c"}, {"größe"}}})
	if got, want := strings.Join(out.ChildNames, " "), "shop-web-0 shop-a-b-c-9wwhm8q6rc shop-gr--e-gmsnrjcgsd"; got != want {
		t.Errorf("the names are %s, want %s", got, want)
	}
}
