// Package cloudevents is the capability by which a host publishes what happens to the objects of a plugin as
// CloudEvents: the changes of its primaries and the ends of their runs (abi/cloudevents/SPEC.md).
//
// A [Publisher] encodes each event once and puts it into the buffer of each sink, which never blocks.
// What is there when a replica begins to lead is announced, which waits for room instead
// ([Publisher.Announce]).
//
// Guarantees: as long as the host lives, an event that is in a buffer is sent until the sink has taken
// or refused it, so that it arrives at least once. Events about one object arrive in the order in which
// they were published. Events beyond the bounds of a buffer are dropped, counted and reported.
//
//	capability.go the declaration, and what it does with each plugin
//	hooks.go     the events of changes and of ends of runs
//	announcer.go when what is there is announced
//	settings.go  the cloudEvents of a policy, as they are written
//	check.go     what is wrong with them
//	event.go     changes and ends of runs, and their CloudEvents
//	buffer.go    the events that wait for a sink, in lanes
//	sink.go      the delivery to one sink
//	send.go      one request to a sink, and what its answer means
//	report.go    what is reported of a sink
//	metrics.go   the metrics of a sink
//	publisher.go the sinks of a plugin
//	announce.go  the announcement of what is there
//
// RATIONALE.md has the reasons.
package cloudevents
