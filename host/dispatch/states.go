package dispatch

import (
	"sync/atomic"
	"weak"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// This file tells changes of the annotations in which capabilities keep what they know of an object from others.

// onlyStatesDiffer reports whether two versions of an object differ in nothing but what capabilities keep in its
// annotations, and in bookkeeping: such a change runs nothing.
func onlyStatesDiffer(old, updated *object.Object) bool {
	if old == nil || updated == nil || old.UID != updated.UID || !statesDiffer(old, updated) {
		return false
	}
	without := func(o *object.Object) []byte {
		text, err := rawjson.MergePatch(o.Given(), versionless)
		if err != nil { // cannot happen for an object that was parsed
			return nil
		}
		return text
	}
	diff, err := rawjson.Diff(without(old), without(updated))
	return err == nil && diff == nil
}

// comparedStates remembers onlyStatesDiffer of the last event of an object that many keys have read:
// the event is compared for each of them.
type comparedStates struct {
	last atomic.Pointer[comparedEvent]
}

type comparedEvent struct {
	old, updated weak.Pointer[object.Object]
	onlyStates   bool
}

// fewAnnotations are compared faster than the event is looked up.
const fewAnnotations = 32

// only is onlyStatesDiffer.
func (m *comparedStates) only(old, updated *object.Object) bool {
	switch {
	case old == nil, updated == nil:
		return false
	case len(old.Annotations)+len(updated.Annotations) <= fewAnnotations && !statesDiffer(old, updated):
		return false
	}
	event := comparedEvent{old: weak.Make(old), updated: weak.Make(updated)}
	if last := m.last.Load(); last != nil && last.old == event.old && last.updated == event.updated {
		return last.onlyStates
	}
	event.onlyStates = onlyStatesDiffer(old, updated)
	m.last.Store(&event)
	return event.onlyStates
}

var versionless = []byte(`{"metadata":{"resourceVersion":null}}`)

// statesDiffer reports whether an annotation with the state of a capability differs.
func statesDiffer(old, updated *object.Object) bool {
	return !sameAnnotations(old.Annotations, updated.Annotations, abi.StateAnnotation)
}

// sameAnnotations reports whether two objects have the same annotations of those that count.
func sameAnnotations(a, b map[string]string, counts func(string) bool) bool {
	return covers(a, b, counts) && covers(b, a, counts)
}

// covers reports whether a has every annotation of b that counts.
func covers(a, b map[string]string, counts func(string) bool) bool {
	for name, value := range b {
		if have, ok := a[name]; counts(name) && (!ok || have != value) {
			return false
		}
	}
	return true
}

func countsAsInput(name string) bool { return !abi.StateAnnotation(name) }
