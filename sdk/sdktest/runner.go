package sdktest

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// Runner runs the plugin under test. Package wasmtest has one for compiled
// plugins.
type Runner interface {
	// Describe returns the text of the manifest.
	Describe() []byte
	// Reconcile answers the text of an [abi.Request] with the code and the
	// text of an [abi.Result]. An error is a guest that did not return; if it
	// has a method FailureClass() abi.Class, that classifies it.
	Reconcile(request []byte, host Host) (abi.Code, []byte, error)
}

// Host is what a run can ask the world. Calls and replies are texts as in
// package abi, codes are its negative ones or not looked at.
type Host interface {
	Get(call []byte) (reply []byte, code int64)
	List(call []byte) (reply []byte, code int64)
	Log(level int32, line []byte)
}

// native runs what is linked into the test.
type native struct{}

func (native) Describe() []byte { return abi.EncodeManifest(guest.Manifest()) }

func (native) Reconcile(request []byte, host Host) (abi.Code, []byte, error) {
	code, result := guest.Reconcile(host, request)
	return code, result, nil
}
