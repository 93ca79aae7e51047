// Package dispatch is the worker of the host: it takes a key from the queue,
// reads its object from the cache, calls the plugin in the sandbox, decides what
// the result means, performs the effects, and hands the key back to the queue.
// worker.go reads from top to bottom in this order, and call.go, perform.go and end.go after it.
//
// dispatch drives the stages queue, cache, sandbox, outcome and effect and uses
// their types. The small interfaces in controller.go exist so that tests can
// replace a stage.
//
// # Guarantees
//
//   - One key is never reconciled twice at once, and a run uses one revision of
//     its plugin from its beginning to its end.
//   - Nothing is written to the cluster unless the guest returned a result.
//   - A run sees everything that earlier runs of the plugin wrote, however late the
//     informers are. What a write with a lost reply may have changed is read from
//     the API server first.
//   - No worker waits for the sake of one key: a run whose writes are postponed is
//     parked.
//   - No run begins while this replica of the host does not lead the plugin. No key is
//     lost meanwhile.
//   - With a service account, no byte reaches the guest that the account may not read, and
//     no object makes a key due that the account may not see.
//   - The turn of an object makes one call at a time, and none after its last one.
//   - While the circuit breaker of a plugin is open, its keys stay in their
//     queues and one run at a time probes the plugin. Every plugin has a
//     breaker of its own.
//
// # Files
//
//	controller.go    Controller, its configuration, what it needs of the stages
//	worker.go        one run, from the key to the key, and the gates before it
//	call.go          the call of the guest: its request and its result
//	reads.go         what a guest reads during its call
//	lists.go         what lists ask for, and their pages
//	mayread.go       what it may read: by the manifest, the policy, what is followed and its service account
//	guestlog.go      what a guest logs during its call
//	perform.go       what the run has led to, and its effects
//	groups.go        groups of intents of which some have failed
//	postponed.go       what changes when a run is tried again: postponed effects, outages, a run that cannot begin
//	end.go           the end of a run
//	due.go           what makes a key due
//	triggers.go      which keys an event of the cluster concerns
//	watches.go       which primaries a change of a watched kind concerns
//	unanswered.go    changes of which it is not known whether the service account may see them
//	terms.go         what counts no more when the replica leads again
//	deleting.go      runs for objects that are being deleted and held by others
//	gone.go          runs for objects that are gone
//	vanished.go      cleanups of those that were deleted in spite of the finalizer
//	turns.go         calls that a capability has made for no object, and that find objects to run
//	objectturns.go   calls that a capability has made for one object beside its runs
//	turnstops.go     how these end, with a last call
//	signals.go       what both of these have given for the runs of objects
//	resolve.go       primaries for what comes from outside
//	ownchanges.go    which of these events are the work of the key itself
//	hooks.go         what capabilities do
//	hookcalls.go     when that is done, and what is kept for it
//	states.go        what they keep in annotations, whose changes run nothing
//	imports.go       functions of the host that they answer
//	exportcalls.go   calls that they make beside the queue
//	state.go         what is remembered of a key between its runs
//	lastrun.go       how the latest run of each object has ended
//	writeloop.go     keys that only their own writes wake, again and again
//	breaker.go       the circuit breaker of a plugin
//	breakerstate.go  its state machine, a pure function of time
//	breakercredit.go which namespaces it holds up
//	breakerlines.go  whose turn it is among what it holds
//	comparison.go    whether a new revision fails more than the one before
//	guestfault.go    how failures of a guest are reported
//
// # Where a question is answered
//
//	what makes a key due               due.go, host/queue/rules.go; which keys: triggers.go
//	when is a failed run tried again   host/outcome/outcome.go, host/outcome/classify.go, host/outcome/next.go, postponed.go
//	how an edit becomes a status       host/cache/store.go, host/runner/controller.go (follow), triggers.go, due.go,
//	                                   host/queue/queue.go, worker.go, call.go, host/outcome/outcome.go, perform.go,
//	                                   host/effect/status.go
package dispatch
