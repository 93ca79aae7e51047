//go:build unix

package apimachinerytest

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
)

var (
	word  = strings.Repeat("w", 63)
	label = "l" + strings.Repeat("-", 70) + "l." // there is no limit for the labels of a prefix

	validKeys   = []string{"a", "b", "in", "notin", "A_b.c", "x.io/a", "x.io/in", "0-9.x/Z", word, label + "x/" + word, strings.Repeat("p", 253) + "/a"}
	validValues = []string{"", "a", "b", "B-_.0", "in", word}
	operators   = []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist}

	invalidKeys = []string{
		"", "/", "/a", "a/", "a/b/c", "-a", "a-", "_", ".a", "a b", "a,b", "a\n", "\na", "é", "a=b", "!a", word + "w", "X.io/a", "x_y.io/a", ".io/a", "io./a",
		"x..io/a", "-x/a", "x-/a", "x.-y/a", "x.io/-a", "x.io/" + word + "w", strings.Repeat("p", 254) + "/a", "x.io\n/a",
	}
	invalidValues    = []string{"-", "-a", "a.", "_a", "a b", "a/b", "a,b", ")", "a\n", "ß", word + "w"}
	invalidOperators = []metav1.LabelSelectorOperator{"", "in", "Gt", "=", "Equals"}

	// anyText is similar to keys and values.
	anyText = rapid.StringOfN(rapid.SampledFrom([]rune("ab0AZ-_./ ,\né")), 0, 8, -1)
)

// oneOf returns texts that are valid, mostly, or any.
func oneOf(mixed bool, valid, invalid []string) *rapid.Generator[string] {
	if !mixed {
		return rapid.SampledFrom(valid)
	}
	return rapid.OneOf(rapid.SampledFrom(valid), rapid.SampledFrom(valid), rapid.SampledFrom(invalid), anyText)
}

// selectors returns selectors that are valid, unless mixed is set, and nil.
func selectors(mixed bool) *rapid.Generator[*metav1.LabelSelector] {
	keys, vals, ops := oneOf(mixed, validKeys, invalidKeys), oneOf(mixed, validValues, invalidValues), rapid.SampledFrom(operators)
	fewest := 0 // expressions
	if mixed {
		fewest = 1
		ops = rapid.OneOf(ops, ops, ops, rapid.SampledFrom(invalidOperators))
	}
	requirements := rapid.Custom(func(t *rapid.T) metav1.LabelSelectorRequirement {
		q := metav1.LabelSelectorRequirement{Key: keys.Draw(t, "key"), Operator: ops.Draw(t, "operator")}
		least, most := 1, 3
		if q.Operator == metav1.LabelSelectorOpExists || q.Operator == metav1.LabelSelectorOpDoesNotExist {
			least, most = 0, 0
		}
		if mixed && rapid.IntRange(0, 5).Draw(t, "wrong number") == 0 {
			least, most = 0, 1
		}
		q.Values = rapid.SliceOfN(vals, least, most).Draw(t, "values")
		return q
	})
	return rapid.Ptr(rapid.Custom(func(t *rapid.T) metav1.LabelSelector {
		return metav1.LabelSelector{
			MatchLabels: rapid.MapOfN(keys, vals, 0, 2).Draw(t, "matchLabels"),
			// With fewer than 12 requirements, those of one key have an order in apimachinery.
			MatchExpressions: rapid.SliceOfN(requirements, fewest, 3).Draw(t, "matchExpressions"),
		}
	}), true)
}

// TestLabelSelectorIsThatOfApimachinery: the same selectors are valid, they match the
// same labels, also as the text that a list has, and have the same JSON.
func TestLabelSelectorIsThatOfApimachinery(t *testing.T) {
	plugin := loadValues(t)
	all := rapid.SliceOfN(rapid.MapOfN(rapid.SampledFrom(validKeys), rapid.SampledFrom(validValues), 0, 8), 1, 20)
	var valid, invalid, matching int
	rapid.Check(t, func(t *rapid.T) {
		var s spec
		for range 20 {
			selector := selectors(rapid.Bool().Draw(t, "mixed")).Draw(t, "selector")
			s.Selectors = append(s.Selectors, selected{selector, append(all.Draw(t, "labels"), nil, matchedBy(selector))})
		}
		for i, v := range plugin.compute(t, "w", s).Verdicts {
			if errorOf(s.Selectors[i].Selector) != nil {
				invalid++
			} else {
				valid++
			}
			matching += checkVerdict(t, s.Selectors[i], v)
		}
	})
	if t.Logf("%d selectors are valid, %d are not; %d labels match", valid, invalid, matching); min(valid, invalid, matching) < 20 {
		t.Error("too few of one of these: the comparison says little")
	}
}

// matchedBy returns labels that meet at least the requirements with a value, if they can be met.
func matchedBy(s *metav1.LabelSelector) map[string]string {
	out := map[string]string{}
	if s == nil {
		return out
	}
	for _, q := range s.MatchExpressions {
		if q.Operator == metav1.LabelSelectorOpExists {
			out[q.Key] = "x"
		}
		if q.Operator == metav1.LabelSelectorOpIn && len(q.Values) > 0 {
			out[q.Key] = q.Values[len(q.Values)-1]
		}
	}
	maps.Copy(out, s.MatchLabels)
	return out
}

// errorOf returns why the API server would reject the selector.
func errorOf(s *metav1.LabelSelector) error {
	err := validation.ValidateLabelSelector(s, validation.LabelSelectorValidationOptions{}, field.NewPath("selector")).ToAggregate()
	if err == nil {
		_, err := metav1.LabelSelectorAsSelector(s)
		return err
	}
	return err
}

// checkVerdict compares what the plugin did with a selector, and returns how many labels match.
func checkVerdict(t *rapid.T, s selected, v verdict) (matching int) {
	if given, back := asJSON(t, s.Selector), asJSON(t, v.Selector); given != back {
		t.Fatalf("%s comes back as %s", given, back)
	}
	wantErr := errorOf(s.Selector)
	if (v.Error != "") != (wantErr != nil) {
		t.Fatalf("%s: the error is %q, that of apimachinery %v", asJSON(t, s.Selector), v.Error, wantErr)
	}
	parsed, parseErr := labels.Parse(v.Text)
	if (parseErr != nil) != (wantErr != nil) {
		t.Fatalf("%s: as a text %q: %v, want %v", asJSON(t, s.Selector), v.Text, parseErr, wantErr)
	}
	selector, _ := metav1.LabelSelectorAsSelector(s.Selector)
	if wantErr != nil {
		selector, parsed = labels.Nothing(), labels.Nothing()
	}
	for i, set := range s.Labels {
		want := selector.Matches(labels.Set(set))
		if v.Matches[i] != want || parsed.Matches(labels.Set(set)) != want {
			t.Fatalf("%s, %q: %v with %v, want %v", asJSON(t, s.Selector), v.Text, v.Matches[i], set, want)
		}
		if want {
			matching++
		}
	}
	if text := metav1.FormatLabelSelector(s.Selector); wantErr == nil && text != "<none>" && text != v.Text {
		t.Fatalf("%s: the text is %q, want %q", asJSON(t, s.Selector), v.Text, text)
	}
	return matching
}

func asJSON(t fataler, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
