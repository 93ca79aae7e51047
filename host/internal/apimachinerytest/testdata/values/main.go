// Command values is a plugin for tests that returns what the SDK does with values of Kubernetes.
package main

import "github.com/thole-dev/thole/sdk"

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

func init() {
	sdk.Register(sdk.Controller[Spec, Status]{
		Name:      "values",
		For:       sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "Values"},
		Reconcile: reconcile,
	})
}

// Spec has what is computed.
type Spec struct {
	Selectors []Selected `json:"selectors,omitempty"`
	Parts     [][]string `json:"parts,omitempty"`    // for ChildName
	Prefixes  []string   `json:"prefixes,omitempty"` // for UniqueName
}

// Selected has labels of objects that the selector may match.
type Selected struct {
	Selector *sdk.LabelSelector  `json:"selector"`
	Labels   []map[string]string `json:"labels"`
}

// Status has the results, in the order of the spec.
type Status struct {
	Verdicts    []Verdict `json:"verdicts,omitempty"`
	ChildNames  []string  `json:"childNames,omitempty"`
	UniqueNames []string  `json:"uniqueNames,omitempty"`
}

// Verdict is what the SDK does with one selector.
type Verdict struct {
	Error    string             `json:"error,omitempty"`
	Matches  []bool             `json:"matches,omitempty"`
	Text     string             `json:"text"`
	Selector *sdk.LabelSelector `json:"selector"`
}

func reconcile(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
	for _, s := range r.Spec.Selectors {
		v := Verdict{Text: s.Selector.Text(), Selector: s.Selector}
		if err := s.Selector.Validate(); err != nil {
			v.Error = err.Error()
		}
		for _, labels := range s.Labels {
			v.Matches = append(v.Matches, s.Selector.Matches(labels))
		}
		r.Status.Verdicts = append(r.Status.Verdicts, v)
	}
	for _, parts := range r.Spec.Parts {
		r.Status.ChildNames = append(r.Status.ChildNames, r.ChildName(parts...))
	}
	for _, prefix := range r.Spec.Prefixes {
		r.Status.UniqueNames = append(r.Status.UniqueNames, r.UniqueName(prefix))
	}
	return sdk.AwaitChange(), nil
}

func main() {}
