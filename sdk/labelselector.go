package sdk

import (
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
)

// LabelSelector selects objects by their labels. It is the type of
// metav1.LabelSelector, for a field of a Spec:
//
//	Selector *sdk.LabelSelector `json:"selector"`
//
// All requirements of a selector must be met. As in Kubernetes, a selector without
// requirements matches every object, and nil matches none. A field that may be
// absent should therefore be a pointer.
//
// Decoding accepts any selector with members of the right types; see
// [LabelSelector.Validate].
// +structType=atomic
type LabelSelector struct {
	// MatchLabels are labels with the values that they must have.
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// +listType=atomic
	MatchExpressions []LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelSelectorRequirement is a requirement on one label.
type LabelSelectorRequirement struct {
	Key      string                `json:"key"`
	Operator LabelSelectorOperator `json:"operator"`
	// Values are one or more for In and NotIn, and none for Exists and DoesNotExist.
	// +listType=atomic
	Values []string `json:"values,omitempty"`
}

// LabelSelectorOperator relates a label to the values of a [LabelSelectorRequirement].
type LabelSelectorOperator string

// The operators. An object without the label meets NotIn and DoesNotExist.
const (
	LabelSelectorOpIn           LabelSelectorOperator = "In"
	LabelSelectorOpNotIn        LabelSelectorOperator = "NotIn"
	LabelSelectorOpExists       LabelSelectorOperator = "Exists"
	LabelSelectorOpDoesNotExist LabelSelectorOperator = "DoesNotExist"
)

// Validate returns an error if the API server would reject the selector in an object
// of a built-in kind. The error begins with the path of the field in the selector:
//
//	matchExpressions[0].operator: "Is" is not In, NotIn, Exists or DoesNotExist
//
// The schema of a CRD does not check keys and values. Only a change of the object
// helps, so a run ends with
//
//	sdk.Stalled("InvalidSelector", errors.New("spec.selector."+err.Error()))
func (s *LabelSelector) Validate() error {
	if s == nil {
		return nil
	}
	var buffer [codec.SmallMap]string
	for _, key := range codec.Keys(s.MatchLabels, buffer[:0]) {
		err := checkLabelKey(key)
		if err == nil {
			err = checkLabelValue(s.MatchLabels[key])
		}
		if err != nil {
			return codec.Within("matchLabels", codec.WithinKey(key, err))
		}
	}
	for i := range s.MatchExpressions {
		if err := s.MatchExpressions[i].validate(); err != nil {
			return codec.Within("matchExpressions", codec.WithinElement(i, err))
		}
	}
	return nil
}

func (q *LabelSelectorRequirement) validate() error {
	switch q.Operator {
	case LabelSelectorOpIn, LabelSelectorOpNotIn:
		if len(q.Values) == 0 {
			return rawjson.NewError("values", "is required with the operator "+string(q.Operator))
		}
	case LabelSelectorOpExists, LabelSelectorOpDoesNotExist:
		if len(q.Values) > 0 {
			return rawjson.NewError("values", "must be empty with the operator "+string(q.Operator))
		}
	default:
		return rawjson.NewError("operator", rawjson.Quote(string(q.Operator))+" is not In, NotIn, Exists or DoesNotExist")
	}
	if err := checkLabelKey(q.Key); err != nil {
		return codec.Within("key", err)
	}
	for i, value := range q.Values {
		if err := checkLabelValue(value); err != nil {
			return codec.Within("values", codec.WithinElement(i, err))
		}
	}
	return nil
}

// Matches reports whether an object with these labels is selected. A selector that is
// not valid matches nothing.
func (s *LabelSelector) Matches(labels map[string]string) bool {
	if s == nil {
		return false
	}
	for key, want := range s.MatchLabels {
		if value, has := labels[key]; !has || value != want {
			return false
		}
	}
	for i := range s.MatchExpressions {
		if !s.MatchExpressions[i].matches(labels) {
			return false
		}
	}
	return s.Validate() == nil
}

// matches is for a requirement that is valid.
func (q *LabelSelectorRequirement) matches(labels map[string]string) bool {
	value, has := labels[q.Key]
	switch q.Operator {
	case LabelSelectorOpIn:
		return has && slices.Contains(q.Values, value)
	case LabelSelectorOpNotIn:
		return !has || !slices.Contains(q.Values, value)
	case LabelSelectorOpExists:
		return has
	default:
		return !has
	}
}

// nothing is a selector in the notation of kubectl that matches no labels.
const nothing = "nothing,!nothing"

// Text returns the selector in the notation of kubectl, ordered by key. As the
// LabelSelector of a [Query] it selects the objects that the selector matches: "" is
// for all objects, and nil becomes a text that selects none. A list by a selector that
// is not valid is an [ErrInvalid] that has the reason.
func (s *LabelSelector) Text() string {
	if s == nil {
		return nothing
	}
	if err := s.Validate(); err != nil {
		return "<invalid: " + err.Error() + ">"
	}
	texts := map[string][]string{} // of the requirements on each key
	for key, value := range s.MatchLabels {
		texts[key] = append(texts[key], key+"="+value)
	}
	for i := range s.MatchExpressions {
		q := &s.MatchExpressions[i]
		texts[q.Key] = append(texts[q.Key], q.text())
	}
	return joined(texts)
}

// text is [LabelSelector.Text] for a requirement that is valid.
func (q *LabelSelectorRequirement) text() string {
	values := map[string][]string{}
	for _, value := range q.Values {
		values[value] = append(values[value], value)
	}
	switch q.Operator {
	case LabelSelectorOpIn:
		return q.Key + " in (" + joined(values) + ")"
	case LabelSelectorOpNotIn:
		return q.Key + " notin (" + joined(values) + ")"
	case LabelSelectorOpExists:
		return q.Key
	default:
		return "!" + q.Key
	}
}

// joined returns texts with commas, ordered by their keys. Under TinyGo, package slices
// would need 4 KB more to sort them.
func joined(texts map[string][]string) string {
	var all []string
	for _, key := range codec.Keys(texts, nil) {
		all = append(all, texts[key]...)
	}
	return strings.Join(all, ",")
}

func checkLabelKey(key string) error {
	prefix, name, prefixed := strings.Cut(key, "/")
	if !prefixed {
		name = key
	}
	if name == "" || !isLabelValue(name) || prefixed && !isSubdomain(prefix) {
		return rawjson.NewError("", rawjson.Quote(key)+" is not a label key: at most 63 letters, digits, '-', '_' and '.', "+
			"with a letter or digit at both ends, after a DNS subdomain and a slash if there is one, such as example.com/app")
	}
	return nil
}

func checkLabelValue(value string) error {
	if !isLabelValue(value) {
		return rawjson.NewError("", rawjson.Quote(value)+" is not a label value: at most 63 letters, digits, '-', '_' and '.', "+
			"with a letter or digit at both ends")
	}
	return nil
}

// isLabelValue is IsValidLabelValue of k8s.io/apimachinery.
func isLabelValue(s string) bool {
	if len(s) > maxLabel {
		return false
	}
	for i := range len(s) {
		inside := i > 0 && i < len(s)-1 && strings.IndexByte("-_.", s[i]) >= 0
		if !inside && !isLowerOrDigit(s[i]) && (s[i] < 'A' || s[i] > 'Z') {
			return false
		}
	}
	return true
}

// isSubdomain is IsDNS1123Subdomain of k8s.io/apimachinery, which does not limit the
// length of each label.
func isSubdomain(s string) bool {
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if !isLowerOrDigit(label[i]) && label[i] != '-' {
				return false
			}
		}
	}
	return true
}
