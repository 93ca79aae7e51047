package kstatustest

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const valid = `
apiVersion: kstatus.thole.dev/v1
kind: Actor
metadata: {generation: 2}
status:
  observedGeneration: 2
  outcome: success
  seen: 2
  scriptID: x
  conditions: [{type: Ready, status: "True", reason: Succeeded, observedGeneration: 2}]
`

// TestCheckerFindsEachViolation changes a valid status: the tests of the host prove
// something only if the checker would find what is wrong.
func TestCheckerFindsEachViolation(t *testing.T) {
	sc := newActorChecker()
	for _, c := range []struct{ name, old, new, want string }{
		{"valid", "", "", ""},
		{"foreign condition", "conditions: [", "conditions: [{type: Foreign, status: 'True'}, ", ""},
		{"of an earlier generation", "{generation: 2}", "{generation: 3}", ""},

		{"no Ready", "type: Ready", "type: Synced", "Ready condition must always be present"},
		{"Ready and Reconciling", "conditions: [", "conditions: [{type: Reconciling, status: 'True', observedGeneration: 2}, ", "Ready condition must be False when Reconciling"},
		{"Ready=Unknown while it works", "True\", reason: Succeeded, observedGeneration: 2", "Unknown\", reason: X, observedGeneration: 1", "must have Reconciling=True when Ready=Unknown"},
		{"Reconciling kept as False", "conditions: [", "conditions: [{type: Reconciling, status: 'False', observedGeneration: 2}, ", "Reconciling condition can be removed"},
		{"Ready and Stalled", "conditions: [", "conditions: [{type: Stalled, status: 'True', observedGeneration: 2}, ", "Ready condition must be False when Stalled"},
		{"Ready and degraded", "conditions: [", "conditions: [{type: Degraded, status: 'True', observedGeneration: 2}, ", "Negative polarity condition cannot be True when Ready"},
		{"another summary", "conditions: [", "conditions: [{type: Degraded, status: 'False', observedGeneration: 2}, {type: Healthy, status: 'False', observedGeneration: 2}, ", "by Flux's summary"},
		{"no summary", "conditions: [", "conditions: [{type: Synced, status: 'True', observedGeneration: 2}, ", "by Flux's summary"},
		{"settled and Stalled", "conditions: [", "conditions: [{type: Stalled, status: 'True', observedGeneration: 2}, {type: Settled, status: 'True', observedGeneration: 2}, ", "the condition Settled is"},
		{"settled and Reconciling", "conditions: [", "conditions: [{type: Reconciling, status: 'True', observedGeneration: 2}, {type: Settled, status: 'True', observedGeneration: 2}, ", "the condition Settled is"},
		{"condition of no generation", "conditions: [", "conditions: [{type: Synced, status: 'True'}, ", "Missing ObservedGeneration"},
		{"condition of an old generation", "conditions: [", "conditions: [{type: Synced, status: 'True', observedGeneration: 1}, ", "must be equal to the root ObservedGeneration"},
		{"observed the future", "observedGeneration: 2\n", "observedGeneration: 3\n", "must be less than or equal to the object Generation"},
		{"never observed", "  observedGeneration: 2\n", "", "written as current at generation 2 with observedGeneration 0"},
		{"a run that saw an old object", "seen: 2", "seen: 1", "the run saw generation 1 of 2"},
		{"a run that failed", "outcome: success", "outcome: retry", "the outcome of the run is retry"},
		{"a run that returned nothing", "outcome: success", "outcome: empty", "the object was not Ready before"},
		{"an old child", "scriptID: x", "scriptID: z", `its child is of script "x", not "z"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			invalid := strings.Replace(valid, c.old, c.new, 1)
			if c.old != "" && invalid == valid {
				t.Fatalf("%q is not in the status", c.old)
			}
			v := version{object: parse(t, invalid)}
			got := errors.Join(sc.check(t, v, parse(t, `{apiVersion: v1, kind: ConfigMap, data: {scriptID: x}}`)))
			if c.want == "" && got != nil || c.want != "" && (got == nil || !strings.Contains(got.Error(), c.want)) {
				t.Errorf("the checker returned %v, want %q", got, c.want)
			}
		})
	}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = o.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}
