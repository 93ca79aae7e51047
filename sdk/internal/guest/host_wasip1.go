package guest

import (
	"unsafe"

	"github.com/thole-dev/thole/abi"
)

// Host is what a run can ask while it goes on. It is a type without values or
// dispatch, so that each method is linked, and its import required from the
// host, only by a plugin that calls it.
type Host struct{}

// Get answers the text of an [abi.GetCall] with an object.
func (Host) Get(call []byte) (reply []byte, code int64) {
	return answer(get(unsafe.Pointer(unsafe.SliceData(call)), uint32(len(call))))
}

// List answers the text of an [abi.ListCall] with that of an [abi.ListReply].
func (Host) List(call []byte) (reply []byte, code int64) {
	return answer(list(unsafe.Pointer(unsafe.SliceData(call)), uint32(len(call))))
}

// Log takes a line.
func (Host) Log(level int32, line []byte) {
	log(level, unsafe.Pointer(unsafe.SliceData(line)), uint32(len(line)))
}

// answer fetches the reply to a capability call.
func answer(code int64) ([]byte, int64) {
	if code < 0 {
		return nil, code
	}
	return read(int(code)), code
}

// read copies the next n bytes of the request, or of the last reply.
func read(n int) []byte {
	data := make([]byte, n)
	input(unsafe.Pointer(unsafe.SliceData(data)), uint32(n))
	return data
}

// write appends to the result.
func write(data []byte) {
	output(unsafe.Pointer(unsafe.SliceData(data)), uint32(len(data)))
}

//go:wasmexport thole_v1
func marker() {}

//go:wasmexport describe
func describe() int32 {
	write(abi.EncodeManifest(Manifest()))
	return 0
}

// warm fills what the first use of a type fills, before the host takes the
// instance's image. A type that cannot be encoded ends here: the host refuses
// the module, with the message that println writes to standard error.
//
//go:wasmexport warm
func warm() int32 {
	if err := Warm(); err != nil {
		println("warm:", err.Error())
		return 1
	}
	return 0
}

//go:wasmexport reconcile
func reconcile(length int32) int32 {
	code, result := Reconcile(Host{}, read(int(length)))
	write(result)
	return int32(code)
}

//go:wasmimport thole/v1 input
func input(ptr unsafe.Pointer, length uint32)

//go:wasmimport thole/v1 output
func output(ptr unsafe.Pointer, length uint32)

//go:wasmimport thole/v1 log
func log(level int32, ptr unsafe.Pointer, length uint32)

//go:wasmimport thole/v1 get
func get(ptr unsafe.Pointer, length uint32) int64

//go:wasmimport thole/v1 list
func list(ptr unsafe.Pointer, length uint32) int64
