package outcome_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

func TestReadConditionsReturnsEveryField(t *testing.T) {
	got := outcome.ReadConditions([]byte(`{"status":{"conditions":[
		{"type":"Ready","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-11-20T08:00:00Z","observedGeneration":7,"severity":"Info"},
		{"type":"Bare","reason":null}]}}`))
	want := []abi.Condition{
		{Type: "Ready", Status: "True", Reason: "R", Message: "m", LastTransitionTime: "2026-11-20T08:00:00Z", ObservedGeneration: 7},
		{Type: "Bare"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestReadConditionsOfAnObjectWithoutConditionsIsEmpty(t *testing.T) {
	for _, object := range []string{`{}`, `{"status":null}`, `{"status":{"conditions":null}}`, `{"status":{"conditions":{}}}`, `{"status":{"conditions":[]}}`} {
		if got := outcome.ReadConditions([]byte(object)); got != nil {
			t.Errorf("%s: got %+v", object, got)
		}
	}
}

func TestMalformedConditionHidesNoOther(t *testing.T) {
	const list = `[5, {"type":"A","status":true,"message":{"x":[1]},"lastTransitionTime":"soon","observedGeneration":1.5}, {"type":"B","status":"True"}]`
	var types, raw []string
	err := outcome.EachCondition([]byte(list), func(c abi.Condition, text []byte) {
		types, raw = append(types, c.Type+"="+c.Status), append(raw, string(text))
		if c.ObservedGeneration != 0 || c.LastTransitionTime != "" || c.Message != "" {
			t.Errorf("read %+v", c)
		}
	})
	if err != nil || !slices.Equal(types, []string{"=", "A=", "B=True"}) || raw[0] != "5" || raw[2] != `{"type":"B","status":"True"}` {
		t.Errorf("got %q from %q, %v", types, raw, err)
	}
	if outcome.EachCondition([]byte(`[{"type":`), func(abi.Condition, []byte) {}) == nil {
		t.Error("half a list was accepted")
	}
}

func TestSuccessRemovesReconcilingWhoeverSetIt(t *testing.T) {
	for name, in := range map[string]outcome.Input{
		"the host":                     given("Reconciling=True/Progressing"),
		"the guest, in an earlier run": given("Reconciling=True/NewRevision"),
		"the guest, in this run":       returns(given(), 0, "success", "Reconciling=True/NewRevision"),
	} {
		equal(t, name, show(outcome.Decide(in)), "Ready=True/Succeeded -Stalled -Reconciling")
	}
}

func TestOnlyAStalledRunIsStalled(t *testing.T) {
	const claim = "Stalled=True/Mine"
	for name, in := range map[string]outcome.Input{
		"success": returns(given(claim), 0, "success", claim),
		"requeue": returns(given(claim), 0, "requeue", claim),
		"empty":   returns(given(claim), 0, "empty", claim),
		"retry":   returns(given(claim), 1, "", claim),
		"waiting": returns(given(claim), 3, "", claim),
	} {
		equal(t, name, slices.Contains(outcome.Decide(in).Remove, "Stalled"), true)
	}
	stalled := returns(given(), 2, "", "Stalled=False/Mine")
	equal(t, "stalled", find(t, outcome.Decide(stalled), "Stalled").Status, abi.ConditionTrue)
}
