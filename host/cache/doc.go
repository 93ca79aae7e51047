// Package cache holds what the API server says about every kind that a
// controller needs: one informer per kind, shared by all who need it, started
// when the first one asks and stopped some time after the last one left.
//
// An object is kept as the JSON that the API server sent beside its parsed
// metadata ([object.Object]); nothing in between is ever decoded into maps.
//
// # Guarantees
//
//   - The events of an informer reach each handler in the order in which its
//     store changed, and the store has changed by then. No lock is held while a
//     handler runs: it may call everything but [Cache.Stop].
//   - A handler gets an event for every object that is there when it is added,
//     marked Initial, and after that every change. Two changes of one object
//     that happened while the watch was down may be told as one.
//   - An object that was deleted and created again is told as a deletion and
//     a creation, also when only the outcome was seen.
//   - An informer never gives up. It says once what it cannot do, and once that
//     it can again.
//   - A kind that the API server stops serving has no objects: its store is
//     emptied, with an event for each, until the kind is back.
//
// # Edges
//
// [Cache.Begin] opens a run, through which one reconcile reads. Whatever it
// read is an edge from its key to that object or list; a later change there
// calls [Config.Wake] for exactly the keys that read it.
//
// # Own writes
//
// [Informer.WaitReached] waits until the store has seen a resourceVersion, so
// that a run does not start from a state older than its own writes.
package cache
