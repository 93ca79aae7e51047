package dispatch

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
)

// This file is about objects of an API server that has no uids or resourceVersions.

func objectWith(uid, version, text string) *object.Object {
	return &object.Object{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}, Raw: []byte(text)}
}

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

func TestStatesWithoutVersionsAreComparedByTheirText(t *testing.T) {
	for _, test := range []struct {
		a, b *object.Object
		want bool
	}{
		{objectWith("u", "1", "a"), objectWith("u", "1", "b"), true},
		{objectWith("u", "1", "a"), objectWith("u", "2", "a"), false},
		{objectWith("u", "1", "a"), objectWith("v", "1", "a"), false},
		{objectWith("u", "", "a"), objectWith("u", "", "a"), true},
		{objectWith("u", "", "a"), objectWith("u", "", "b"), false},
	} {
		if got := isSameState(test.a, test.b); got != test.want {
			t.Errorf("%+v and %+v: %v", test.a, test.b, got)
		}
	}
}
