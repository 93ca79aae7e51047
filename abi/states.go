package abi

import (
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
)

// StateAnnotation reports whether an annotation has what a capability keeps of an object for a controller:
// <controller>.<plugin>.thole.dev/<word>, where the word is not that of the host's record of an apply. Its changes run
// nothing, and no request has it.
func StateAnnotation(name string) bool {
	domain, rest, _ := strings.Cut(name, "/")
	owner, ok := strings.CutSuffix(domain, ".thole.dev")
	return ok && strings.Contains(owner, ".") && !isApplied(rest)
}

// isApplied reports whether the part of an annotation behind the slash is that of a record of an apply.
func isApplied(rest string) bool { return rest == "applied" || strings.HasPrefix(rest, "applied-") }

// WithoutStates returns an object, as JSON, without the annotations in which capabilities keep what they know of it
// ([StateAnnotation]). annotations are those of the object.
func WithoutStates(raw []byte, annotations map[string]string) []byte {
	var names []string
	for name := range annotations {
		if StateAnnotation(name) {
			names = append(names, name)
		}
	}
	if names == nil {
		return raw
	}
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("metadata").Object(func() {
			if w.Name("annotations"); len(names) == len(annotations) {
				w.Raw(nil) // a null
				return
			}
			w.Object(func() {
				for _, name := range names {
					w.Name(name).Raw(nil)
				}
			})
		})
	})
	without, err := rawjson.MergePatch(raw, w.Bytes())
	if err != nil { // cannot happen for an object that was parsed
		return raw
	}
	return without
}
