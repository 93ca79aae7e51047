package scope

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// implies reports whether every object that the first selector selects is selected by
// the second one. nil stands for everything. It may report false of a pair for which it
// is true.
func implies(narrow, wide labels.Selector) bool {
	if wide == nil {
		return true
	}
	wanted, _ := wide.Requirements()
	var given labels.Requirements
	if narrow != nil {
		given, _ = narrow.Requirements()
	}
	return !slices.ContainsFunc(wanted, func(w labels.Requirement) bool {
		return !slices.ContainsFunc(given, func(g labels.Requirement) bool { return isStricter(g, w) })
	})
}

// isStricter reports whether every set of labels that meets one requirement meets the
// other one.
func isStricter(narrow, wide labels.Requirement) bool {
	if narrow.Key() != wide.Key() {
		return false
	}
	if narrow.Equal(wide) {
		return true
	}
	values, excluded := narrow.Values(), wide.Values()
	switch wide.Operator() {
	case selection.Exists:
		return !isNegative(narrow.Operator())
	case selection.Equals, selection.DoubleEquals, selection.In:
		return isOneOf(narrow.Operator()) && excluded.IsSuperset(values)
	case selection.NotEquals, selection.NotIn:
		switch {
		case narrow.Operator() == selection.DoesNotExist:
			return true
		case isOneOf(narrow.Operator()):
			return !excluded.HasAny(values.UnsortedList()...)
		}
		return isNegative(narrow.Operator()) && values.IsSuperset(excluded)
	default: // a number, or no label: only the same requirement is known to imply it
		return false
	}
}

func isOneOf(o selection.Operator) bool {
	return o == selection.Equals || o == selection.DoubleEquals || o == selection.In
}

// isNegative reports whether an object without the label meets a requirement.
func isNegative(o selection.Operator) bool {
	return o == selection.NotEquals || o == selection.NotIn || o == selection.DoesNotExist
}
