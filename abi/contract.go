package abi

// Version is the ABI that this package describes. A guest states it by
// exporting a function of the name [ExportMarker]; a breaking change gets a
// new version and a new marker, served beside the old one.
const Version = "thole/v1"

// Names of the functions that a guest exports (SPEC.md, "Exports").
const (
	ExportMemory     = "memory"      // the linear memory; required
	ExportMarker     = "thole_v1"    // () -> (); required, never called
	ExportInitialize = "_initialize" // () -> (); optional, called once
	ExportDescribe   = "describe"    // () -> i32; required
	ExportWarm       = "warm"        // () -> i32; optional
	ExportReconcile  = "reconcile"   // (len i32) -> i32; required
)

// ImportModule is the import module of the host functions.
const ImportModule = Version

// Names of the functions that a guest may import from [ImportModule]
// (SPEC.md, "Imports").
const (
	ImportInput  = "input"  // (ptr, len i32) -> (): copies the next bytes of the request or of the last reply
	ImportOutput = "output" // (ptr, len i32) -> (): appends to the result
	ImportLog    = "log"    // (level, ptr, len i32) -> ()
	ImportGet    = "get"    // (ptr, len i32) -> i64: a capability call
	ImportList   = "list"   // (ptr, len i32) -> i64: a capability call
)

// Negative returns of a capability call. A value of zero or more is the
// length of the reply, which the guest then copies with [ImportInput]. None of
// them ends the run: the guest decides what it makes of it.
const (
	CodeNotFound    int64 = -1 // the object does not exist
	CodeDenied      int64 = -2 // outside the declared scope or the rights of the plugin
	CodeConflict    int64 = -3 // the object has changed since it was read
	CodeUnavailable int64 = -4 // cannot be answered now; the guest should end the run
	CodeInvalid     int64 = -5 // the call's message is not understood
	CodeTooLarge    int64 = -6 // the reply would exceed the plugin's limit
)

// Levels of [ImportLog]; others count as the nearest of these.
const (
	LogDebug int32 = iota
	LogInfo
	LogWarn
	LogError
)

// Code is what reconcile returns.
type Code int32

const (
	CodeOK      Code = 0 // the run ended well; see [Result.Result]
	CodeRetry   Code = 1 // failed, come again with backoff
	CodeStalled Code = 2 // failed, only a change can help
	CodeWaiting Code = 3 // something else must happen first, come again after [Failure.After]
)

// Class says how a run ended, in one set that host and guest share: it is a
// label of metrics, a field of logs and [Previous.Class].
type Class string

const (
	ClassNone          Class = ""               // the run did not fail
	ClassRetry         Class = "retry"          // the guest asked for a retry, or the host could not do its part
	ClassStalled       Class = "stalled"        // the guest says that only a change can help
	ClassWaiting       Class = "waiting"        // the guest waits for something else
	ClassPanic         Class = "panic"          // the guest trapped or exited
	ClassTimeout       Class = "timeout"        // the deadline of the call passed
	ClassOutOfMemory   Class = "out-of-memory"  // the guest needed more memory than its limit
	ClassStackOverflow Class = "stack-overflow" // the guest's calls nested too deeply
	ClassABI           Class = "abi"            // the guest broke the contract of this package
	ClassDenied        Class = "denied"         // an intent outside the manifest, the policy or the plugin's rights
)

// Classes lists every class of a failed run, for metrics that exist at zero.
func Classes() []Class {
	return []Class{
		ClassRetry, ClassStalled, ClassWaiting, ClassPanic, ClassTimeout,
		ClassOutOfMemory, ClassStackOverflow, ClassABI, ClassDenied,
	}
}

// Limits of the messages (SPEC.md, "Limits"). Sizes are bytes; counts are of
// one array or, where that is said, of several.
const (
	MaxOutput           = 3 << 19  // 1.5 MiB, of one result or manifest
	MaxCall             = 64 << 10 // of the message of one get or list
	MaxDepth            = 64       // nesting of arrays and objects in what a guest writes
	MaxIntents          = 256      // entries of apply, delete and events together
	MaxConditions       = 64       // of a result, and of each list of types in a manifest
	MaxMemo             = 4 << 10
	MaxName             = 1 << 10 // of an object's name, namespace and uid; longer than any in a cluster
	MaxControllers      = 64      // per plugin
	MaxFeatures         = 64      // per plugin
	MaxKinds            = 256     // of each of owns, reads and writes
	MaxVersion          = 128     // of a plugin's version, and of that of its memos
	MaxConditionType    = 316     // as in metav1.Condition
	MaxConditionReason  = 1024
	MaxEventReason      = 128      // as in events.k8s.io/v1
	MaxErrorMessage     = 4 << 10  // longer messages are cut
	MaxConditionMessage = 32 << 10 // likewise
	MaxEventMessage     = 1 << 10  // likewise
)

// Features lists the parts of thole/v1 that came after its first version and
// that this package knows; a manifest names those that the plugin uses.
func Features() []string { return nil }
