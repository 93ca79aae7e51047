package effect

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// This file is about a status that is the guest's as a whole.

// replacesOnlyItsConditions returns an error if the status is the guest's, and its patch would
// replace conditions that somebody else has changed since the guest was given them: a merge
// patch has the whole list. Conditions of the host are merged one by one instead.
func (want *Status) replacesOnlyItsConditions(c *abi.Controller, o *object.Object) error {
	if !object.GuestOwnsStatus(c) || o == want.Given {
		return nil
	}
	wanted, replaces := rawjson.Lookup(want.Patch, "conditions")
	if !replaces {
		return nil
	}
	given, _ := rawjson.Lookup(statusOf(want.Given), "conditions")
	now, _ := rawjson.Lookup(statusOf(o), "conditions")
	if rawjson.Equal(now, given) || rawjson.Equal(now, wanted) { // by a write whose reply was lost
		return nil
	}
	return superseded("somebody else has changed the conditions of the object")
}
