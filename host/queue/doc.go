// Package queue holds the keys of one controller that are to be reconciled:
// one [Queue] per controller, on client-go's workqueue with a queue of our own
// inside for priority and ageing.
//
// # Guarantees
//
//   - A key is never handed out a second time before it was settled.
//   - A trigger is never lost: the key is handed out at least once after
//     [Queue.Trigger] returned, with the exception of a resync, as below. A
//     trigger for a key that runs leads to another run after it.
//   - A key has at most one deadline. [Queue.Settle] sets or clears it, and the
//     start of a run clears it: each run decides anew when the next one is.
//   - No key costs a goroutine or a timer. A key that waits for nothing costs
//     no memory.
//
// # What a trigger does
//
//	primary, request   at once, urgent, resets the tries
//	plugin             at once, resets the tries; in the background unless the
//	                   key backs off: then somebody waits for just this
//	owned, read        100 ms after the first of a burst, urgent, also during a
//	                   backoff; does not reset
//	status             at once, urgent; ignored while the key backs off, as the
//	                   deadline will run it
//	resync             like status, but in the background
//	requeue, retry     what a deadline fires as, urgent unless its run yields;
//	                   any other reason is urgent
//
// A trigger does not touch the deadline, and needs not to: the run that it
// leads to does. A trigger that comes while the key runs follows the same
// rules when the run is settled: an edge no sooner than 100 ms after it came,
// status or resync not at all
// if the run ended in backoff. Whatever is pending when a
// key is handed out is handed out with it.
//
// # Order
//
// Urgent keys go first, in the order of their coming; then background keys, in
// theirs. A background key that has waited 10 s is taken before urgent ones,
// but only with every fourth key: ten thousand objects of an initial list grow
// old together, and must not hold up fresh changes any more than these may
// starve them. A key that is returned goes back to the place that it came from,
// with its age, and with what came for it meanwhile.
package queue
