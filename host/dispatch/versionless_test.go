package dispatch

import (
	"testing"

	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
)

// This file is about objects of an API server that has no uids or resourceVersions.

// All such objects have the same uid and version, so that an event would pass as the one of
// any write.
func TestAnEventIsNotOwnBecauseItHasNoVersion(t *testing.T) {
	for name, w := range map[string]effect.Write{
		"no uid and version":   {Object: &object.Object{}},
		"no version":           {UID: "u", Object: &object.Object{}},
		"deletion without uid": {},
		"no uid":               {ResourceVersion: "1", Object: &object.Object{}},
	} {
		var own ownChanges
		own.add(w, true)
		if isOwn, ignored := own.find(w.UID, w.ResourceVersion); isOwn || ignored || len(own) != 0 {
			t.Errorf("%s: own %v, ignored %v", name, isOwn, ignored)
		}
	}
	var own ownChanges
	own.add(effect.Write{UID: "u", ResourceVersion: "1", Object: &object.Object{}}, true)
	if isOwn, ignored := own.find("u", "1"); !isOwn || !ignored {
		t.Error("a write with uid and version is not found")
	}
}
