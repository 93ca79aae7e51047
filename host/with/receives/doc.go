// Package receives is the capability by which CloudEvents from outside of the cluster make the primaries run that
// they name (abi/receives/SPEC.md): POST /events, and POST /events/PLUGIN for one plugin.
//
//	capability.go the declaration, and what each plugin receives
//	settings.go   the fields of the configuration and of policies
//	metrics.go    the metric
//	handler.go    one request, from its method to the answer
//	room.go       how many requests there are at once
//	callers.go    who sends it
//	body.go       its body, within bounds of size and time
//	decode.go     the events in it
//	resolve.go    the primaries of an event, and whether the caller may make them run
//	receiver.go   the controllers that receive events
//	answer.go     the statuses
//	logs.go       what is logged of requests
//
// Guarantees:
//   - Nothing is read of the body of a request whose caller is not known.
//   - All events of a request are queued, or none: each is checked before the first one is.
//   - What an answer shows of an object is what the caller may know: that one of a name exists is found
//     out by nobody who may not make it run. That an index has a key is not a secret.
//   - Tokens and the content of events are in no log and no metric.
//
// RATIONALE.md has the reasons.
package receives
