package object

import "github.com/thole-dev/thole/abi"

// Given returns what guests are given of an object in a request.
func (o *Object) Given() []byte { return abi.WithoutStates(o.Raw, o.Annotations) }
