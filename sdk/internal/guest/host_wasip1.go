package guest

import (
	"unsafe"

	"github.com/thole-dev/thole/abi"
)

// Host has the capabilities that a run can call. It is a type without dynamic
// dispatch, so that a method is linked, and its import required from the host,
// only if the plugin calls it.
type Host struct{}

// Get returns the object for the text of an [abi.GetCall].
func (Host) Get(call []byte) (reply []byte, code int64) {
	return readReply(get(unsafe.Pointer(unsafe.SliceData(call)), uint32(len(call))))
}

// List returns the text of an [abi.ListReply] for that of an [abi.ListCall].
func (Host) List(call []byte) (reply []byte, code int64) {
	return readReply(list(unsafe.Pointer(unsafe.SliceData(call)), uint32(len(call))))
}

// IndexGet returns the text of an [functionindexes.Reply] for that of an [functionindexes.Call].
func (Host) IndexGet(call []byte) (reply []byte, code int64) {
	return readReply(indexGet(unsafe.Pointer(unsafe.SliceData(call)), uint32(len(call))))
}

// HTTP returns the encoded reply to an encoded call of the capability http.
func (Host) HTTP(call []byte) (reply []byte, code int64) {
	return readReply(http(unsafe.Pointer(unsafe.SliceData(call)), uint32(len(call))))
}

// Log writes a line to the log.
func (Host) Log(level int32, line []byte) {
	log(level, unsafe.Pointer(unsafe.SliceData(line)), uint32(len(line)))
}

// readReply reads the reply to a capability call that returned code.
func readReply(code int64) ([]byte, int64) {
	if code < 0 {
		return nil, code
	}
	return read(int(code)), code
}

// read returns the next n bytes of the request, or of the last reply.
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

// warm fills the caches that the first use of a type fills, before the host takes the
// instance's image. It stops at a type that cannot be encoded, with a message on
// standard error. The host ignores the returned value: the type fails when it is used.
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

// onIndex gives keys to an object. It is set by exportIndex, so that a plugin without indexes by
// keys does not contain the code.
var onIndex func(length int32) int32

func exportIndex() {
	onIndex = func(length int32) int32 {
		code, result := GiveKeys(read(int(length)))
		write(result)
		return int32(code)
	}
}

//go:wasmexport index
func index(length int32) int32 {
	if onIndex == nil {
		return int32(abi.CodeStalled) // the manifest has no such index, so that it is never called
	}
	return onIndex(length)
}

// onDaemon makes a step of a daemon. It is set by exportDaemon, for the same reason as onIndex.
var onDaemon func(length int32) int32

func exportDaemon() {
	onDaemon = func(length int32) int32 { return reply(Step(Host{}, read(int(length)))) }
}

//go:wasmexport daemon
func step(length int32) int32 { return callIf(onDaemon, length) }

// onScan scans. It is set by exportScan, for the same reason as onIndex.
var onScan func(length int32) int32

func exportScan() {
	onScan = func(length int32) int32 { return reply(Scan(Host{}, read(int(length)))) }
}

//go:wasmexport scan
func scan(length int32) int32 { return callIf(onScan, length) }

// The functions of the exports of reviews are set by those below, for the same reason as onIndex. The
// manifest names no export without one, so that it is never called.
var onValidate, onMutate, onConvert func(length int32) int32

func exportValidate() {
	onValidate = func(length int32) int32 { return reply(Validate(Host{}, read(int(length)))) }
}

func exportMutate() {
	onMutate = func(length int32) int32 { return reply(Mutate(Host{}, read(int(length)))) }
}

func exportConvert() {
	onConvert = func(length int32) int32 { return reply(Convert(read(int(length)))) }
}

// reply writes a result and returns its code.
func reply(code abi.Code, result []byte) int32 {
	write(result)
	return int32(code)
}

//go:wasmexport validate
func validate(length int32) int32 { return callIf(onValidate, length) }

//go:wasmexport mutate
func mutate(length int32) int32 { return callIf(onMutate, length) }

//go:wasmexport convert
func convert(length int32) int32 { return callIf(onConvert, length) }

func callIf(f func(length int32) int32, length int32) int32 {
	if f == nil {
		return int32(abi.CodeStalled)
	}
	return f(length)
}

//go:wasmimport thole/v1 input
func input(ptr unsafe.Pointer, length uint32)

//go:wasmimport thole/v1 output
func output(ptr unsafe.Pointer, length uint32)

//go:wasmimport thole/v1 log
func log(level int32, ptr unsafe.Pointer, length uint32)

//go:wasmimport thole/v1 get
func get(ptr unsafe.Pointer, length uint32) int64

//go:wasmimport thole/v1 http
func http(ptr unsafe.Pointer, length uint32) int64

//go:wasmimport thole/v1 index_get
func indexGet(ptr unsafe.Pointer, length uint32) int64

//go:wasmimport thole/v1 list
func list(ptr unsafe.Pointer, length uint32) int64
