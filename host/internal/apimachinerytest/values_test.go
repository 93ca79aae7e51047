//go:build unix

package apimachinerytest

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// spec and status are those of testdata/values, with the types of apimachinery.
type (
	spec struct {
		Selectors []selected `json:"selectors,omitempty"`
		Parts     [][]string `json:"parts,omitempty"`
		Prefixes  []string   `json:"prefixes,omitempty"`
	}
	selected struct {
		Selector *metav1.LabelSelector `json:"selector"`
		Labels   []map[string]string   `json:"labels"`
	}
	status struct {
		Verdicts    []verdict `json:"verdicts"`
		ChildNames  []string  `json:"childNames"`
		UniqueNames []string  `json:"uniqueNames"`
	}
	verdict struct {
		Error    string                `json:"error"`
		Matches  []bool                `json:"matches"`
		Text     string                `json:"text"`
		Selector *metav1.LabelSelector `json:"selector"`
	}
)

// values is the plugin of testdata/values.
type values struct{ plugin }

func loadValues(t *testing.T) values { return values{load(t, "values")} }

// compute runs a primary of that name and spec, and returns its status.
func (v values) compute(t fataler, name string, spec spec) (out status) {
	t.Helper()
	v.plugin.compute(t, name, spec, &out)
	return out
}
