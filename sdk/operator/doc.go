// Package operator calls one function for every event of an object, or one for each kind of
// event: its creation, an update, its deletion. It is a thin layer over sdk.Controller, for
// authors who know reconcilers and watchers from the Grafana App SDK:
//
//	func init() {
//		r := operator.Reconciler[Spec, Status]{Reconcile: reconcile, Opinionated: true}
//		sdk.Register(r.Controller(sdk.Controller[Spec, Status]{Name: "mykind", For: myKind}))
//	}
//
//	func reconcile(r *operator.Request[Spec, Status]) (operator.Result, error)
//
// Which of the two is a matter of taste. Only a [Reconciler] can ask for another call after a
// time, and give state to it. Only a [Watcher] gets the object before an update.
//
// A Reconcile of sdk.Controller that compares the desired state with the cluster in every run
// needs none of this, and repairs what somebody else has changed. For several functions that
// are retried independently of each other, see package handlers.
//
// # When an event is delivered
//
//	          plain                                       opinionated
//	Created   the object is new, or was there when        no event was ever done for it
//	          the host or the plugin started
//	Updated   it differs from what was handled,           its generation counts another content than
//	          also in its status                          in the last call
//	Deleted   it is gone                                  it is being deleted, or is gone
//	Resynced  it runs, and does not differ                the same, and when the host or the plugin
//	                                                      starts
//
// A run delivers one event at most, and the object as it is then. What has happened between
// two runs is one event, and there is no event for the versions between. Objects of all
// versions of the kind come in the version that For of the controller names.
//
// A plain form filters nothing. What it writes to its own object is an event, too, when the
// object runs again, and so are the conditions of the host. Such events can be left early: keep
// the generation that was applied last in the status, and return if the object has the same.
// It has no finalizer, so what is deleted while no host runs is missed.
//
// # Opinionated
//
// The opinionated form does this itself.
//
//   - A finalizer holds each object from its first run on, whether or not that has succeeded.
//     Deleted is delivered until it is done. That is so if no other event ever was, and if the
//     host was down meanwhile. Then the finalizer is removed.
//   - Updates of the status, of labels and annotations, and those that the controller has made
//     itself are no events. Of a kind without generations, such as a ConfigMap, labels and
//     annotations count.
//   - An object that was handled before the host or the plugin started is Resynced, and not
//     Created; it is Updated if it has changed meanwhile. See Sync of [Watcher] for the order.
//   - Resynced also comes for other causes than the object itself: a timer, the regular resync,
//     an object that was read or is owned. These are told apart by Reasons of [sdk.Run].
//
// A run without an event ends as [sdk.Empty]. The handled state is kept in an annotation, which
// is one more write for each change, and is refused for Secrets and other sensitive kinds.
//
// A change that failed and is taken back is an update, unless the host was restarted in
// between: then the object is as it was handled, and only Resynced. So Sync must not assume
// that nothing was begun.
//
// # Errors
//
// An event whose call returned an error is delivered again, after a time: that of the error
// ([sdk.RetryAfter], [sdk.Waiting]) or of RequeueAfter, else by ErrorPolicy of the controller,
// else by the policy of RetryOf or Retry. If the attempts of that are used up, or after
// [sdk.Stalled], the event is given up: the object is Stalled until something makes it run
// again, which begins anew. If something makes the object run earlier, such as an object that
// was read, the event comes with it; in the opinionated form not for updates that do not count.
//
// It is the object of that time that is delivered, not the one of the first call. A newer
// change therefore drops the pending event, and is delivered at once. With Dequeue, the event
// can be kept: it is delivered at its own time, though the newer one was done. Two kept events
// wait at most beside the newest one; the oldest gives way. The object is Ready when none is
// pending.
//
// An event may be delivered again although its call succeeded: when the host ends before it
// has stored that, when an effect of the run fails, or after a run that did not return. What a
// call does must be repeatable.
//
// # What is kept where
//
// Pending events, their state and the number of calls are in the memo of the object, in the
// memory of the host: [sdk.Run.SetMemo] must not be called. After a restart the object runs
// again, so that no event is lost with them. Progress belongs in the status, where users see
// it too.
//
// A run that succeeds releases the fields of objects of a kind in Writes that it does not name,
// so these must be applied in every call, Resynced included. Objects of a kind in Owns need be
// applied once.
package operator
