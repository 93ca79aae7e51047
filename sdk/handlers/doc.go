// Package handlers calls functions for single changes of an object: its creation, an update,
// its deletion, another value of a field, a timer. It is a thin layer over [sdk.Controller],
// with the tools that authors know from kopf:
//
//	func init() {
//		var h handlers.Handlers[Spec, Status]
//		h.OnCreate("dns", createRecord).Retries(5).Backoff(10 * time.Second)
//		h.OnField("scale", "spec.replicas", scale).Labels("tier", handlers.Value("web"))
//		h.OnDelete("dns-gone", deleteRecord)
//		h.Timer(sdk.Timer{Name: "probe", Interval: time.Minute}, probe)
//		sdk.Register(h.Controller(sdk.Controller[Spec, Status]{Name: "site", For: siteKind}))
//	}
//
// A Reconcile that compares the desired state with the cluster in every run needs none of
// this, and repairs what somebody else has changed. Handlers are for what must be done once
// for a change, or takes several steps that fail independently of each other.
//
// # When a handler is called
//
//	OnCreate   the object was never handled
//	OnUpdate   it differs from the object that was handled, in more than metadata and status;
//	           labels and annotations count
//	OnField    the value at a path differs; of a created object, if there is a value
//	OnResume   it was handled before this host or this revision of the plugin began
//	OnDelete   it is being deleted
//	Timer      the timer is due
//	OnEvent    in every run, whatever has changed
//
// All filters must match as well. If the host does not have the old object, everything counts as
// changed; of a resumed one nothing, with [sdk.ChangesMemory]. When an object is being deleted,
// only handlers of OnDelete and OnEvent are called.
//
// Changes are coalesced: what happened between two runs is one change, and a change that is
// taken back before it is handled is none. With [sdk.ChangesAnnotation], which is the default
// here, a change is noticed that happened while no host ran. A patch of the object by a
// handler is a change like that of anybody else: the next run calls OnUpdate for it.
//
// # One run
//
// A run calls every handler whose turn it is, in the order in which they were added. They
// share the request, and make one result: what one has put into Status is what the next one
// finds there, and results of handlers are stored in Status by assigning its fields.
//
// Intents of a handler that fails half-way are kept: the host performs them, as it does after
// any run that returns an error. TinyGo has no recover, so a panic in one handler ends the
// whole run, and nothing of it is performed.
//
// Two things of the host concern whole runs. A run that succeeds releases the fields of shared
// objects that it does not name, so objects of a kind in Writes must be applied in every run,
// by a handler of OnEvent; those of a kind in Owns need be applied once. And a change of an
// object that was read runs the primary only if the last run has read it.
//
// # Errors
//
// A handler that returns an error is called again, after its own backoff; those that have
// succeeded for the same change are not. The run ends as a failure whose message names the
// handlers, or as waiting if none was called. When Retries or Timeout are used up, after
// [Permanent], or with [ErrorsPermanent], the handler has failed: a Warning Event HandlerFailed
// names it, and it is not called again for this change. When all handlers have succeeded or
// failed, the change is handled, the object is Ready, and the finalizer of an object that is
// being deleted is removed. A handler whose failure must remain visible sets a condition.
//
// A handler may be called again although it has succeeded: when the host ends before it has
// stored that, or when an effect of the run fails. So what a handler does must be repeatable.
//
// The progress is kept with the handled state ([sdk.Run.SetProgress], which handlers must not
// call). It belongs to one content of the object: when somebody changes spec, labels or
// annotations before all handlers are done, those of OnCreate, OnUpdate and OnResume begin
// anew, for the combined change. A handler of OnField begins anew when the value at its path
// is another; those of timers and deletions do not.
//
// # Fields of the status
//
// An actual state that a timer or an event handler has computed into Status is handled in the
// same run, by handlers of OnField that are added after it. If one that was added earlier is
// concerned, the object runs again at once. What others have written to the status counts in
// the same way, wherever the handled state is kept.
//
// What such a handler was called for last is kept in the memo, around that of the author, which
// can be shorter than 4 KiB by so much. After a restart, with a new revision whose
// [sdk.MemoVersion] differs, and after a failed effect it is not known: the handler is called
// for a value that it may have been called for before, and misses none. Its OldValue is nil
// with [sdk.ChangesAnnotation], because the handled state has no status.
package handlers
