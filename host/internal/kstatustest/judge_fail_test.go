package kstatustest

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const healthy = `
apiVersion: kstatus.thole.dev/v1
kind: Actor
metadata: {generation: 2}
status:
  observedGeneration: 2
  verdict: success
  seen: 2
  scene: x
  conditions: [{type: Ready, status: "True", reason: Succeeded, observedGeneration: 2}]
`

// TestTheJudgeSeesWhatIsWrong spoils statuses one by one: tests that find
// nothing prove something only if they would find it.
func TestTheJudgeSeesWhatIsWrong(t *testing.T) {
	j := newJudge([]string{"Degraded"}, []string{"Synced"}, actorMatched)
	for _, c := range []struct{ name, old, new, want string }{
		{"nothing", "", "", ""},
		{"foreign condition", "conditions: [", "conditions: [{type: Foreign, status: 'True'}, ", ""},
		{"overtaken", "{generation: 2}", "{generation: 3}", ""},

		{"no Ready", "type: Ready", "type: Synced", "Ready condition must always be present"},
		{"Ready and Reconciling", "conditions: [", "conditions: [{type: Reconciling, status: 'True', observedGeneration: 2}, ", "Ready condition must be False when Reconciling"},
		{"Ready=Unknown while it works", "True\", reason: Succeeded, observedGeneration: 2", "Unknown\", reason: X, observedGeneration: 1", "must have Reconciling=True when Ready=Unknown"},
		{"Reconciling kept as False", "conditions: [", "conditions: [{type: Reconciling, status: 'False', observedGeneration: 2}, ", "Reconciling condition can be removed"},
		{"Ready and Stalled", "conditions: [", "conditions: [{type: Stalled, status: 'True', observedGeneration: 2}, ", "Ready condition must be False when Stalled"},
		{"Ready and degraded", "conditions: [", "conditions: [{type: Degraded, status: 'True', observedGeneration: 2}, ", "Negative polarity condition cannot be True when Ready"},
		{"condition of no generation", "conditions: [", "conditions: [{type: Synced, status: 'True'}, ", "Missing ObservedGeneration"},
		{"condition of an old generation", "conditions: [", "conditions: [{type: Synced, status: 'True', observedGeneration: 1}, ", "must be equal to the root ObservedGeneration"},
		{"observed the future", "observedGeneration: 2\n", "observedGeneration: 3\n", "must be less than or equal to the object Generation"},
		{"never observed", "  observedGeneration: 2\n", "", "written as current at generation 2 with observedGeneration 0"},
		{"a run that saw an old object", "seen: 2", "seen: 1", "the run saw generation 1 of 2"},
		{"a run that failed", "verdict: success", "verdict: retry", "the run ended in retry"},
		{"a run that said nothing", "verdict: success", "verdict: empty", "the object was not Ready before"},
		{"an old child", "scene: x", "scene: z", `its child is of scene "x", not "z"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			spoiled := strings.Replace(healthy, c.old, c.new, 1)
			if c.old != "" && spoiled == healthy {
				t.Fatalf("%q is not in the status", c.old)
			}
			v := version{object: parse(t, spoiled)}
			got := errors.Join(j.verdict(t, v, parse(t, `{apiVersion: v1, kind: ConfigMap, data: {scene: x}}`)))
			if c.want == "" && got != nil || c.want != "" && (got == nil || !strings.Contains(got.Error(), c.want)) {
				t.Errorf("the judge says %v, want %q", got, c.want)
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
