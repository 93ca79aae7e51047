package sdk_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/sdk"
)

// A differential test against k8s.io/apimachinery is in host/internal/apimachinerytest.

func requirement(key string, operator sdk.LabelSelectorOperator, values ...string) *sdk.LabelSelector {
	return &sdk.LabelSelector{MatchExpressions: []sdk.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func TestLabelSelectorErrorsNameTheFieldAndWhatIsAllowed(t *testing.T) {
	label := func(key, value string) *sdk.LabelSelector {
		return &sdk.LabelSelector{MatchLabels: map[string]string{"zone": "a", key: value}}
	}
	const (
		word  = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
		key   = " is not a label key: " + word + ", after a DNS subdomain and a slash if there is one, such as example.com/app"
		value = " is not a label value: " + word
	)
	second := requirement("a", sdk.LabelSelectorOpExists)
	second.MatchExpressions = append(second.MatchExpressions, sdk.LabelSelectorRequirement{Key: "b", Operator: "in"})
	for want, s := range map[string]*sdk.LabelSelector{
		`matchLabels["a b"]: "a b"` + key:                                             label("a b", "x"),
		`matchLabels["app"]: "-x"` + value:                                            label("app", "-x"),
		`matchExpressions[1].operator: "in" is not In, NotIn, Exists or DoesNotExist`: second,
		`matchExpressions[0].values: is required with the operator In`:                requirement("a", "In"),
		`matchExpressions[0].values: is required with the operator NotIn`:             requirement("a", "NotIn"),
		`matchExpressions[0].values: must be empty with the operator Exists`:          requirement("a", "Exists", "x"),
		`matchExpressions[0].values: must be empty with the operator DoesNotExist`:    requirement("a", "DoesNotExist", "x"),
		`matchExpressions[0].key: ""` + key:                                           requirement("", "Exists"),
		`matchExpressions[0].key: "Example.com/a"` + key:                              requirement("Example.com/a", "Exists"),
		`matchExpressions[0].values[1]: "b c"` + value:                                requirement("a", "In", "x", "b c"),
	} {
		if err := s.Validate(); err == nil || err.Error() != want {
			t.Errorf("the error is %v\nexpected     %s", err, want)
		}
		if s.Matches(nil) || s.Matches(map[string]string{"a": "x"}) {
			t.Errorf("a selector that is not valid matches: %s", want)
		}
	}
}

// TestLabelSelectorSelectsInListWhatItMatches includes nil, which must not select all.
func TestLabelSelectorSelectsInListWhatItMatches(t *testing.T) {
	two := requirement("n", sdk.LabelSelectorOpNotIn, "3", "1")
	two.MatchExpressions = append(two.MatchExpressions, sdk.LabelSelectorRequirement{Key: "n", Operator: sdk.LabelSelectorOpIn, Values: []string{"3", "2"}})
	for name, c := range map[string]struct {
		selector *sdk.LabelSelector
		text     string
		want     string
	}{
		"nil":            {nil, "nothing,!nothing", ""},
		"empty":          {&sdk.LabelSelector{}, "", "n0 n1 n2 n3 n4"},
		"label":          {&sdk.LabelSelector{MatchLabels: map[string]string{"n": "2"}}, "n=2", "n2"},
		"in":             {requirement("n", sdk.LabelSelectorOpIn, "4", "2"), "n in (2,4)", "n2 n4"},
		"not in":         {requirement("n", sdk.LabelSelectorOpNotIn, "4", "2"), "n notin (2,4)", "n0 n1 n3"},
		"not in another": {requirement("m", sdk.LabelSelectorOpNotIn, "4"), "m notin (4)", "n0 n1 n2 n3 n4"},
		"exists":         {requirement("n", sdk.LabelSelectorOpExists), "n", "n0 n1 n2 n3 n4"},
		"does not exist": {requirement("n", sdk.LabelSelectorOpDoesNotExist), "!n", ""},
		"two":            {two, "n notin (1,3),n in (2,3)", "n2"},
	} {
		t.Run(name, func(t *testing.T) {
			var listed, matching []string
			nodes(t, doing(func(r *widget) {
				var all, selected []node
				err := errors.Join(
					r.List(sdk.Query{Kind: nodeKind}, &all),
					r.List(sdk.Query{Kind: nodeKind, LabelSelector: c.selector.Text()}, &selected))
				if err != nil {
					t.Error(err)
				}
				for _, n := range selected {
					listed = append(listed, n.Metadata.Name)
				}
				for _, n := range all {
					if c.selector.Matches(n.Metadata.Labels) {
						matching = append(matching, n.Metadata.Name)
					}
				}
			})).Reconcile(one).ExpectReady()
			if strings.Join(listed, " ") != c.want || !slices.Equal(matching, listed) {
				t.Errorf("the list has %q, those that match are %q, expected %s", listed, matching, c.want)
			}
			if text := c.selector.Text(); text != c.text {
				t.Errorf("the text is %s", text)
			}
		})
	}
}

func TestListByInvalidLabelSelectorFailsWithTheReason(t *testing.T) {
	nodes(t, doing(func(r *widget) {
		err := r.List(sdk.Query{Kind: nodeKind, LabelSelector: requirement("a", "Is").Text()}, new([]node))
		if !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), `matchExpressions[0].operator: "Is" is not In,`) {
			t.Errorf("the error is %v", err)
		}
	})).Reconcile(one)
}

func TestLabelSelectorMatchesWithoutAllocation(t *testing.T) {
	s := requirement("tier", sdk.LabelSelectorOpIn, "a", "b")
	s.MatchLabels = map[string]string{"app.example.com/name": "web"}
	labels := map[string]string{"app.example.com/name": "web", "tier": "b"}
	if n := testing.AllocsPerRun(100, func() {
		if !s.Matches(labels) {
			t.Fatal("does not match")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLabelSelectorMatches(b *testing.B) {
	s := requirement("tier", sdk.LabelSelectorOpIn, "a", "b")
	s.MatchLabels = map[string]string{"app.example.com/name": "web"}
	labels := map[string]string{"app.example.com/name": "web", "tier": "b"}
	for b.Loop() {
		s.Matches(labels)
	}
}
