// Package sdk is the package that a plugin of Thole imports. A controller written
// with it compiles to one .wasm file, by TinyGo or by standard Go.
//
// A plugin registers its controllers in an init function and has an empty main. A
// controller is a function that gets one object and returns what shall happen:
//
//	func reconcile(r *sdk.Request[Spec, Status]) (sdk.Action, error) {
//		r.Apply(configMapFor(r.Name, r.Spec))
//		r.Status.Greeted = r.Spec.Who
//		return sdk.AwaitChange(), nil
//	}
//
// The example below is a whole plugin. Package sdktest runs one under plain go
// test.
//
// # What a run does
//
// Get and List read. Everything else is an intent: Apply, Delete, Event,
// SetCondition, Patch and the changed Status are collected, and the host performs
// them after the run has returned, also if it returned an error. A run that
// panics, does not end or runs out of memory has changed nothing.
//
// Whatever the order of the calls is, they are performed in this order: Patch,
// children.Release, each Apply, each Delete, Events, the conditions and Status. Applies keep
// their order among themselves, and so do deletes. The first that fails ends that, or its
// group (children.Group). An object may be named by one Apply or Delete of a run: to have
// it deleted and made anew, apply it with children.Replace.
//
// # How a run ends
//
//	AwaitChange()           the desired state is reached       Ready
//	RequeueAfter(d)         likewise, run again after d        Ready
//	Requeue()               not reached yet, run again soon    not Ready, Reconciling
//	Empty()                 no result                          unchanged
//	err                     failed, retry                      not Ready, Reconciling
//	Retry(reason, err)      likewise, with a reason            not Ready, Reconciling
//	RetryAfter(d, err)      failed, run again after d          not Ready, Reconciling
//	Stalled(reason, err)    only a change can help             not Ready, Stalled
//	Waiting(reason, d, err) something else must happen first   not Ready, Reconciling
//
// How errors are retried is up to the controller: Retry has the backoff and the number
// of attempts, and ErrorPolicy decides by error and attempt.
//
// The host writes the conditions Ready, Reconciling and Stalled accordingly, and
// observedGeneration. Processors are called at the end of every run, and may change how
// it ends.
//
// # When a run happens
//
// When the object changes, when an owned object of a kind in Owns changes, when
// anything changes that the last run has read by Get or List, after a failure,
// when an object of a kind in Watches changes that belongs to it,
// when an event is received for it,
// after the time that a run has asked for, and at each resync. A run must not
// depend on the cause, and must not assume that an earlier run has completed: it
// compares each part of the desired state with the cluster.
//
// # Types
//
// Spec, Status and the objects of a plugin are small structs of the author's own,
// with the fields that the plugin uses and the tags of encoding/json. Nothing of
// k8s.io is needed: [ObjectMeta], [TypeMeta], [Time], [MicroTime], [Duration],
// [Quantity], [IntOrString], [LabelSelector], [Condition] and [Raw] are in this package.
// For the kinds that plugins apply most, such as Deployment and Service, there are types
// with all fields in the folder sdk/kubernetes.
//
// They are read and written by encoding/json. `thole generate` writes a codec for
// them, which is several times as fast. A plugin in which every value that is passed to
// the SDK has one, compiled by TinyGo, does not contain encoding/json and is 40 %
// smaller. `thole generate` says which values have none, such as a map[string]any.
//
// TinyGo has no recover: a panic ends the run, as does one that is not recovered
// under standard Go. Package time and package math/rand get their values from the
// host, so that a run can be repeated.
package sdk
