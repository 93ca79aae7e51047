package edges

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/thole-dev/thole/abi/fieldpath"
)

// Selection is what a list selects. The zero value selects everything.
type Selection struct {
	Labels     labels.Selector // nil for everything
	Fields     fieldpath.Selector
	Controller string // the UID of the controller; "" for any
}

// controllerPath is the path of a shape by the UID of the controller. No field has it.
const controllerPath = ":controller"

// split separates what must have one value from other requirements for labels. The
// name of a field has a colon before it. Other requirements for fields are left out;
// all reports whether there are none.
func (sel Selection) split() (values map[string]string, others []labels.Requirement, all bool) {
	var requirements labels.Requirements
	if sel.Labels != nil {
		requirements, _ = sel.Labels.Requirements()
	}
	values, others = split(requirements)
	if sel.Controller != "" {
		values[":"+controllerPath] = sel.Controller
		return values, others, len(sel.Fields) == 0
	}
	for _, r := range sel.Fields { // an object without the field has the value ""
		if !r.Not && r.Value != "" {
			values[":"+r.Path.String()] = r.Value
			return values, others, len(sel.Fields) == 1
		}
	}
	return values, others, len(sel.Fields) == 0
}

// split separates the labels that must have one value from other requirements.
func split(requirements labels.Requirements) (values map[string]string, others []labels.Requirement) {
	values = map[string]string{}
	for _, r := range requirements {
		value, one := onlyValue(r)
		if before, twice := values[r.Key()]; one && (!twice || before == value) {
			values[r.Key()] = value
			continue
		}
		others = append(others, r)
	}
	return values, others
}

// onlyValue returns the one value that a requirement allows.
func onlyValue(r labels.Requirement) (value string, one bool) {
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		if all := r.ValuesUnsorted(); len(all) == 1 {
			return all[0], true
		}
	default:
	}
	return "", false
}
