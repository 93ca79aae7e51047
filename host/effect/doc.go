// Package effect performs what a run has decided: it is the only stage that
// writes to the API server.
//
// A [Performer] acts for one plugin, with a client of its own: its own
// User-Agent, rate limits, account and memory, so that no plugin can spend
// what belongs to another. Requests are the bytes that they are made of;
// nothing is decoded into maps.
//
// # Order and failure
//
// The caller performs the effects of one run in the order finalizer, patch,
// apply, delete, events, status ([Performer.EnsureFinalizer],
// [Performer.Intents], [Performer.Status], [Performer.RemoveFinalizer]).
// Every intent is checked before the first one is performed; the first that
// fails ends the call, what was written until then is in the [Report].
//
// # Nothing is written twice
//
// An effect that would change nothing sends nothing. What "nothing" is the
// server decides: it sets defaults, normalises quantities, runs webhooks and
// prunes. So the performer remembers, per primary, what it wanted and what
// the server made of it, and takes the second for the first (memory.go). A
// restart loses this memory, and proof.go says how it is won back without a
// write.
//
// # The files
//
//	effect.go     Performer and what it is made of
//	client.go     requests
//	failure.go    what an error means, and what people are told
//	finalizer.go  added before the first effect, removed after the last
//	intents.go    one run's patch, apply, delete and events, in order
//	scope.go      which objects a controller may touch
//	intent.go     the body of an apply request
//	apply.go      server-side apply: whose object it is, whether to send at all
//	proof.go      that an apply would change nothing, after a restart
//	delete.go     with the UID as precondition
//	event.go      through the host's recorder, once for consecutive runs
//	status.go     one merge patch, merged again on a conflict
//	conditions.go status.conditions
//	pruned.go     what the schema of a kind has no place for
//	memory.go     what is remembered of a primary
//	digest.go     when two JSON values are the same
package effect
