package info

import (
	"errors"
	"hash/fnv"
	"strconv"

	"github.com/thole-dev/thole/sdk"
)

// HashLabel is the label with a hash of the information: whoever lists by it finds equal ones.
const HashLabel = "example.thole.dev/info"

// everyone is the audience of an object that names none.
const everyone = "everyone"

// maxInfo is how long each part of the information may be, in bytes.
const maxInfo = 1000

// mutate sets what follows from the spec, so that no object is ever stored without it: the document
// recommends this instead of doing it in the reconciler.
func mutate(_ *sdk.Review, _, object *MyKind) error {
	if object.Spec.Audience == "" {
		object.Spec.Audience = everyone
	}
	object.SetLabel(HashLabel, hash(object.Spec.Info))
	return nil
}

func hash(info Info) string {
	h := fnv.New64a()
	for _, part := range []string{info.Some, info.Other} {
		_, _ = h.Write([]byte(strconv.Quote(part)))
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// validate lets pass what does not change the information, and whatever is being deleted: an object may
// be stored that it would not allow now, and must be able to lose its finalizer.
func validate(r *sdk.Review, old, object *MyKind) error {
	switch {
	case object.Deleting(), old != nil && old.Spec == object.Spec:
		return nil
	case object.Spec.Info.Some == "":
		return sdk.Denied("Invalid", errors.New("spec.info.some is empty: name what is to be sent"))
	case max(len(object.Spec.Info.Some), len(object.Spec.Info.Other)) > maxInfo:
		return sdk.Denied("Invalid", errors.New("spec.info.some and spec.info.other may have "+strconv.Itoa(maxInfo)+" bytes each"))
	case old != nil && old.Spec.Audience != "" && old.Spec.Audience != object.Spec.Audience:
		return sdk.Denied("Invalid", errors.New("spec.audience cannot be changed: who has seen the information has seen it"))
	}
	if object.Spec.Info.Other == "" {
		r.Warn("spec.info.other is empty: the other system shows a dash")
	}
	return nil
}
