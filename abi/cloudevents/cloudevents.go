// Package cloudevents is what hosts and guests share of the capability by which a host publishes what
// happens to the objects of a controller as CloudEvents. SPEC.md specifies it.
package cloudevents

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Name is the name of the capability: of its section in a controller of a manifest.
const Name = "cloudEvents"

// Check checks the section of a controller, see [abi.Manifest.CheckSections].
func Check(_ *abi.Controller, section []byte) error {
	_, err := Decode(section)
	return err
}

// Decode decodes the section of a controller: whether the host publishes its events. Every error is a
// [*rawjson.Error].
func Decode(section []byte) (publish bool, err error) {
	r := rawjson.NewReader(section)
	publish = r.Bool()
	return publish, r.End()
}
