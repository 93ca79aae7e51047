// Package queue holds the keys of one controller that are due to be reconciled,
// and those that run again at a certain time. There is one [Queue] per
// controller. It is built on client-go's workqueue, which guarantees that one
// key is never processed twice at once, and adds what that lacks: a priority,
// ageing, and one replaceable deadline per key.
//
// # Guarantees
//
//   - A key that [Queue.Next] returned is not returned again before
//     [Queue.Done] or [Queue.PutBack] was called for it.
//   - Once [Queue.Add] has returned, the key is going to be returned by
//     [Queue.Next] at least once, except for a resync or status reason during a
//     backoff (see below). If the key is running, it runs again afterwards.
//   - A key has at most one deadline. [Queue.Done] sets or clears it, and the
//     start of a run clears it: every run decides anew when the next one is due.
//   - Keys cost neither a goroutine nor a timer each. A key that waits for
//     nothing costs no memory.
//
// # What the reason of an Add means
//
//	primary, request   due at once, urgent, resets the tries
//	plugin             due at once, resets the tries; in the background, or
//	                   urgent if the key backs off: the new revision may be
//	                   the correction that the key needs
//	owned, read        due 100 ms after the first of a burst, urgent, also during
//	                   a backoff; does not reset the tries
//	status             due at once, urgent; ignored while the key backs off,
//	                   since its deadline will run it
//	resync             like status, but in the background
//	requeue, retry     the reasons with which deadlines expire: urgent unless
//	                   the run is to yield to others; any other reason is urgent
//
// [Queue.OutageEnded] shortens the backoff of keys that failed because of the API
// server, not because of themselves.
//
// Add does not change the deadline: the run that it leads to replaces it. An
// Add for a key that is running follows the same rules when the run ends: an
// edge (owned, read) becomes due no sooner than 100 ms after it came in, status
// and resync are dropped if the run ended in a backoff. Next returns a key with
// all reasons that are pending for it.
//
// # Order
//
// Urgent keys are returned before background keys, and each kind in the order
// in which the keys became due. A background key that has waited for 10 s takes
// precedence over urgent ones, but only for every fourth key: the ten thousand
// objects of an initial list become old at the same time and must not delay
// fresh changes. [Queue.PutBack] returns a key to the place that it was taken
// from, with its age and with everything that was added for it meanwhile.
package queue
