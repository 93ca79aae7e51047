// Package queue holds the keys of one controller that are due to be reconciled,
// and those that run again at a certain time. There is one [Queue] per
// controller. It is built on client-go's workqueue, which guarantees that one
// key is never processed twice at once, and adds what that lacks: lanes of
// different priority, ageing, and one replaceable deadline per key, with a latest
// time beside it.
//
// # Guarantees
//
//   - A key that [Queue.Next] returned is not returned again before
//     [Queue.Done], [Queue.PutBack] or [Queue.Hold] was called for it.
//   - Once [Queue.Add] has returned, the key is going to be returned by
//     [Queue.Next] at least once, except for a resync or status reason during a
//     backoff (see below), and not while it is held. If the key is running, it runs again afterwards.
//   - A key has at most one deadline. [Queue.Done] sets or clears it, and the
//     start of a run clears it: every run decides anew when the next one is due.
//   - The same is true of its latest time ([outcome.Next]). It makes the key due even
//     while the key backs off, and leaves the deadline as it is.
//   - Keys cost neither a goroutine nor a timer each. A key that waits for
//     nothing costs no memory.
//
// # What makes a key due
//
// A key becomes due by [Queue.Add], for a [Cause], and when the time comes that [Queue.Done] has set. What each
// reason means is in rules.go. [Queue.OutageEnded] shortens the backoff of keys that failed because of the API server, not
// because of themselves.
//
// Add does not change the deadline: the run that it leads to replaces it. An Add for a key that is running follows
// the same rules when the run ends: an edge (owned, read) becomes due no sooner than 100 ms after it came in, status
// and resync are dropped if the run ended in a backoff. Next returns a key with
// all reasons that are pending for it.
//
// # Order
//
// There are three lanes: fresh for what has changed, timed for expired deadlines,
// and background for everything that nobody waits for. A key is returned after
// all keys of the lanes above its own, and in its lane in the order in which the
// keys became due in it; a key that is due in two lanes is in the higher one.
// A change that comes during the run or the backoff of its key is served after the
// fresh ones of other keys: for these changes the lane fresh has a second list,
// "repeated", which is treated as a lane between fresh and timed. So a key that
// changes all the time delays nobody else's.
//
// No lane starves. After three keys in a row that were taken from a lane while
// lower ones waited, the lanes below it have one turn, if one of their keys has
// waited for 10 s, or is repeated. The same rule decides which of them has it. The
// turns are counted per lane: an edit that comes alone is the next key, whatever
// has aged below, and only the fourth of very many keys has to let an aged key go first.
//
// [Queue.PutBack] returns a key to the place that it was taken from, with its age
// and with everything that was added for it meanwhile. [Queue.Hold] does the same for a
// key that may not run yet, and lets those behind it pass: it is due, and counts as
// waiting, but Next does not return it before it is released. Which keys may run is for
// the caller to decide.
//
// # Files
//
//	queue.go      Queue, and what callers do with a key
//	rules.go      what makes a key due, and what that means for when it runs
//	entry.go      the state of a key
//	deadlines.go  the times at which keys become due
//	outage.go     the end of an outage of the API server
//	lanes.go      the order of the keys that are due
//	held.go       keys that are due and may not run yet
package queue
