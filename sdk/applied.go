package sdk

import "github.com/thole-dev/thole/abi"

// Applied is where the host keeps what a controller has applied to the objects of kinds in
// [Controller.Owns]. The zero value is their annotation thole.dev/applied.
type Applied = abi.Applied

// AppliedMemory is for objects that shall have nothing of the host, such as pods whose users
// compare them with those of a built-in controller. After a restart, or when others have changed
// an object, the host compares what it would apply with the object, and applies it once more if
// that does not show, literally, that nothing would change: the API server stores the quantity
// 1000m as 1, for example. An apply that only creates knows by the names of its fields what it has
// created.
const AppliedMemory Applied = abi.AppliedMemory
