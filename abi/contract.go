// Package abi is the contract between the host and a plugin: the names and
// signatures of the thole/v1 functions, the messages that cross the boundary,
// and the codec of these messages. SPEC.md beside this file is the normative
// text, with the pages of the folder spec.
//
// The package imports only the standard library and compiles under TinyGo, so
// that host, SDK and conformance kit share one implementation. It has no
// Kubernetes types: an object is the JSON that the API server sent, as bytes
// (see package rawjson).
package abi

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// Version is the version of the ABI that this package implements. A guest
// declares it by exporting a function named [ExportMarker]. A breaking change
// gets a new version with a new marker, and the host serves both.
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

// Negative return values of a capability call. A value of zero or more is the
// length of the reply, which the guest then copies with [ImportInput]. None of
// these codes ends the run: the guest decides how to continue.
const (
	CodeNotFound    int64 = -1 // the object does not exist
	CodeDenied      int64 = -2 // outside the declared scope or the rights of the plugin
	CodeConflict    int64 = -3 // the object has changed since it was read
	CodeUnavailable int64 = -4 // there is no reply yet, for example because a cache has not synced; the guest should end the run
	CodeInvalid     int64 = -5 // the message of the call is malformed
	CodeTooLarge    int64 = -6 // the reply would exceed the plugin's limit
)

// Levels of [ImportLog]. A lower number counts as LogDebug, a higher one as
// LogError.
const (
	LogDebug int32 = iota
	LogInfo
	LogWarn
	LogError
)

// Code is the return value of [ExportReconcile].
type Code int32

const (
	CodeOK      Code = 0 // the run succeeded; see [Result.Result]
	CodeRetry   Code = 1 // the run failed and is retried with backoff
	CodeStalled Code = 2 // the run failed, and only a change of what it read can help
	CodeWaiting Code = 3 // something else must happen first; retried after [Failure.After]
)

// Class is the error class of a run. Host and guest share this set: it is a
// label of metrics, a field of log lines and the value of [Previous.Class].
type Class string

const (
	ClassNone          Class = ""               // the run did not fail
	ClassRetry         Class = "retry"          // the guest asked for a retry, or the host or the API server failed
	ClassStalled       Class = "stalled"        // the guest ended the run as stalled
	ClassWaiting       Class = "waiting"        // the guest waits for something, or an object is being replaced
	ClassPanic         Class = "panic"          // the guest trapped or exited
	ClassTimeout       Class = "timeout"        // the deadline of the call passed
	ClassOutOfMemory   Class = "out-of-memory"  // the guest needed more memory than its limit
	ClassStackOverflow Class = "stack-overflow" // the guest's calls nested too deeply
	ClassABI           Class = "abi"            // the guest violated the specification
	ClassDenied        Class = "denied"         // an intent is outside the manifest, the policy or the plugin's rights
)

// Classes returns every class of a failed run, so that a metric can have a
// series for each of them before the first failure.
func Classes() []Class {
	return []Class{
		ClassRetry, ClassStalled, ClassWaiting, ClassPanic, ClassTimeout,
		ClassOutOfMemory, ClassStackOverflow, ClassABI, ClassDenied,
	}
}

// Limits of the messages (abi/spec/limits.md). Sizes are in bytes. A count is
// the maximum length of one array unless the comment names several.
const (
	MaxOutput           = 3 << 19  // 1.5 MiB, of one result or manifest
	MaxReply            = 16 << 20 // of one reply to a capability call
	MaxCall             = 64 << 10 // of the message of one get or list
	MaxDepth            = 64       // nesting of arrays and objects in what a guest writes
	MaxIntents          = 256      // entries of release, apply, delete and events together, and of groups
	MaxAllowedIntents   = 10_000   // the same, without groups, if the administrator allows more
	MaxGroupFailures    = 32 << 10 // bytes of the failures of groups in previous of a request
	MaxConditions       = 64       // of a result, and of each list of types in a manifest
	MaxMemo             = 4 << 10
	MaxSignals          = 16      // of one call for one object; four times as many wait for it
	MaxSignal           = 4 << 10 // of one of them
	MaxName             = 1 << 10 // of an object's name, namespace and uid; more than Kubernetes allows
	MaxControllers      = 64      // per plugin
	MaxKinds            = 256     // of each of owns, reads, watches and writes
	MaxNamespaces       = 64      // of one entry of for, owns, reads and watches
	MaxIndexes          = 64      // of a controller
	MaxKindIndexes      = 8       // of one kind, in all controllers of a plugin together
	MaxFieldPath        = 256     // of one of the fields of a get or list, and of the field of an index
	MaxFields           = 16      // of one get or list
	MaxRequirements     = 16      // of a field selector
	MaxSelector         = 8 << 10 // of a label selector, or of a field selector of a manifest, in bytes
	MaxContinue         = 1024    // of the continue of a list
	MaxVersion          = 128     // of a plugin's version, and of its memoVersion
	MaxSummaries        = 16      // of a controller
	MaxConditionType    = 316     // as in metav1.Condition
	MaxConditionReason  = 1024    // as in metav1.Condition
	MaxEventReason      = 128     // as in events.k8s.io/v1
	MaxErrorMessage     = 4 << 10
	MaxConditionMessage = 32 << 10
	MaxEventMessage     = 1 << 10
)

// LabelManagedBy is the label of what a plugin with [Manifest.Managed] owns. Its value is
// the name of the plugin.
const LabelManagedBy = "thole.dev/managed-by"

// LabelAppliedBy is the label of what a controller with [Controller.Prune] has created. Its value is that of
// the controller, see [AppliedBy].
const LabelAppliedBy = "thole.dev/applied-by"

// maxLabelValue is the limit of Kubernetes for the value of a label, in bytes.
const maxLabelValue = 63

// AppliedBy returns the value of [LabelAppliedBy] for a controller: <plugin>.<controller>, or a part of that
// with a hash if it is too long.
func AppliedBy(plugin, controller string) string {
	full := plugin + "." + controller
	if len(full) <= maxLabelValue {
		return full
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(full)) // never fails
	tail := "-" + strconv.FormatUint(hash.Sum64(), 36)
	return strings.TrimRight(full[:maxLabelValue-len(tail)], "-.") + tail
}

// ReservedLabel reports whether a plugin cannot set a label, because the host does.
func ReservedLabel(name string) bool { return name == LabelManagedBy || name == LabelAppliedBy }

// ReservedAnnotation reports whether a plugin cannot set an annotation: the host's own
// records of applies and the states of capabilities, whichever plugin's, and the one by which people
// suspend an object.
func ReservedAnnotation(name string) bool {
	domain, rest, _ := strings.Cut(name, "/")
	return isApplied(rest) && (domain == "thole.dev" || strings.HasSuffix(domain, ".thole.dev")) ||
		StateAnnotation(name) || name == "reconcile.thole.dev/suspend"
}

// ReservedFinalizer reports whether a plugin cannot create an object with a finalizer: it is one
// of the host, whichever plugin's.
func ReservedFinalizer(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return strings.HasSuffix(domain, ".thole.dev")
}
