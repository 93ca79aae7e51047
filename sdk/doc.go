// Package sdk is what a plugin of Thole imports: a controller written with it
// compiles to one .wasm file, by TinyGo or by standard Go.
//
// A plugin registers its controllers in an init function and has an empty
// main. A controller is a function that gets one object and says what it
// wants:
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
// Get and List read; everything else is wanted, not done: Apply, Delete, Event,
// SetCondition, Patch and the changed Status are collected, and the host
// performs them when the run has returned. A run that panics, loops or runs out
// of memory has changed nothing. What it returned with an error is performed
// too.
//
// # How a run ends
//
//	AwaitChange()           the wanted state is reached        Ready
//	RequeueAfter(d)         likewise, look again after d       Ready
//	Requeue()               not reached yet, come again soon   not Ready, Reconciling
//	Empty()                 nothing to say                     as before
//	err                     failed, try again                  not Ready, Reconciling
//	Retry(reason, err)      likewise, with a reason            not Ready, Reconciling
//	Stalled(reason, err)    only a change can help             not Ready, Stalled
//	Waiting(reason, d, err) something else must happen first   not Ready, Reconciling
//
// The host writes the conditions Ready, Reconciling and Stalled accordingly,
// and observedGeneration.
//
// # When a run happens
//
// When the object changes, when an object of a kind in Owns changes that
// belongs to it, when anything changes that its last run read by Get or List,
// after a failure, after the time that a run asked for, and once in a while. A
// run must not care: it looks at each property anew, as one that came before
// may have ended anywhere.
//
// # Types
//
// Spec, Status and the objects of a plugin are the author's own small structs,
// with the fields that matter, in the form that encoding/json wants. Nothing of
// k8s.io is needed; [ObjectMeta], [TypeMeta], [Time], [MicroTime], [Duration],
// [Quantity], [IntOrString], [Condition] and [Raw] are here.
//
// They are read and written by encoding/json. `thole generate` writes a codec
// for them, which is several times as fast; with [RegisterGenerated] in place
// of [Register] the plugin then does without encoding/json, and is half as
// large.
//
// Under TinyGo there is no recover: a panic ends the run, as it does when it is
// not recovered. Package time and random numbers are the host's, so that a run
// can be repeated.
package sdk
