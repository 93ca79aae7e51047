package abi

import "testing"

func TestTheOwnerOfTheStatusWritesItsConditions(t *testing.T) {
	const conditions = `{"status":{"replicas":1,"conditions":[],"observedGeneration":3}}`
	guest := func(text []byte) (*Result, error) { return DecodeResultFor(StatusOwnerGuest, MaxIntents, nil, text) }
	if _, err := guest([]byte(conditions)); err != nil {
		t.Errorf("the guest's: %v", err)
	}
	expectRefused(t, guest, []refusal{
		{`{"status":[]}`, `status: expected an object, found an array (offset 10)`},
		{`{"conditions":[{"type":"A","status":"True","reason":"B"}]}`, `conditions: the status is the guest's (statusOwner in the manifest): write them in status`},
		{`{"conditions":[{"type":"A"}]}`, `conditions: the status is the guest's (statusOwner in the manifest): write them in status`},
	})
	expectRefused(t, DecodeResult, []refusal{
		{conditions, `status.conditions: is written by the host; use the conditions beside status`},
	})
}
