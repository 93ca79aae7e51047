package abi

import "github.com/thole-dev/thole/abi/rawjson"

// checkStatus rejects what the other side writes: conditions and observedGeneration in a
// patch of status, unless the guest owns the status, and conditions beside it if it does.
func (out *Result) checkStatus(owner StatusOwner) error {
	switch {
	case owner == StatusOwnerGuest && len(out.Conditions) > 0:
		return rawjson.NewError("conditions", "the status is the guest's (statusOwner in the manifest): write them in status")
	case owner == StatusOwnerGuest || out.Status == nil:
		return nil
	}
	r := rawjson.NewReader(out.Status)
	r.Object(func(field string) {
		switch field {
		case "conditions":
			r.Fail("is written by the host; use the conditions beside status")
		case "observedGeneration":
			r.Fail("is written by the host, as the outcome of the run requires")
		}
	})
	return rawjson.Within("status", r.End())
}
