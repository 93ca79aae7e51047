package abi

import "github.com/thole-dev/thole/abi/rawjson"

// checkStatus checks that a patch of status leaves alone what only the host
// writes.
func checkStatus(patch []byte) error {
	if patch == nil {
		return nil
	}
	r := rawjson.NewReader(patch)
	r.Object(func(field string) {
		switch field {
		case "conditions":
			r.Fail("is written by the host; use the conditions beside status")
		case "observedGeneration":
			r.Fail("is written by the host, as the outcome says")
		}
	})
	return r.End()
}

// checkPatch checks that a patch of the primary reaches its labels,
// annotations and spec only, and leaves them what they are: objects.
func checkPatch(patch []byte) error {
	if patch == nil {
		return nil
	}
	r := rawjson.NewReader(patch)
	r.Object(func(field string) {
		switch field {
		case "metadata":
			checkMembers(r, func(field string) { checkMetadata(r, field) })
		case "spec":
			checkMembers(r, func(string) {})
		default:
			outOfReach(r)
		}
	})
	return r.End()
}

func checkMetadata(r *rawjson.Reader, field string) {
	switch field {
	case "labels", "annotations":
		checkMembers(r, func(string) { _ = r.String() }) // or a null, which removes
	default:
		outOfReach(r)
	}
}

// checkMembers reads an object that a patch may change but not remove.
func checkMembers(r *rawjson.Reader, member func(string)) {
	if r.Kind() == 'n' {
		r.Fail("expected an object, found null: remove its members instead")
		return
	}
	r.Object(member)
}

func outOfReach(r *rawjson.Reader) {
	r.Fail("a patch reaches metadata.labels, metadata.annotations and spec only")
}
