// Package cache holds the objects of every kind that a controller reads. It has
// one informer per kind, shared by all users, which starts with the first user
// and stops some time after the last one.
//
// An object is kept as the JSON that the API server sent, beside its parsed
// metadata ([object.Object]). It is never decoded into maps. While nobody reads it, its
// JSON is compressed, and the metadata left out (package objects).
//
// # Guarantees
//
//   - A handler receives the events of an informer in the order in which the
//     store changed, and the store has changed before. No lock is held while a
//     handler runs, so it may call everything except [Cache.Stop].
//   - A handler receives an event for every object that exists when it is
//     added, marked Initial, and after that every change. Several changes of
//     one object while the watch was interrupted may arrive as one event.
//   - An object that was deleted and created again arrives as a deletion and
//     a creation, even if the informer has only seen the new object.
//   - An informer retries forever. It logs when it starts to fail and when it
//     has recovered, once each.
//   - When the API server has gone back to an earlier state, as after a restore of
//     etcd, the store is replaced, with an event for each object that differs,
//     and [Hooks.Restored] is called.
//   - A watch in which nothing arrives is ended after [Config.StallAfter], so that
//     one that has frozen loses nothing. If the server has sent bookmarks, the
//     kind is listed again; else the watch continues from the last version.
//   - A kind whose API has no watch is listed at an interval ([Informer.PollEvery]). A list
//     that is not complete changes nothing. Several changes of one object between two lists
//     arrive as one event, and an object that was deleted and created again as an update if
//     the API has no uids.
//   - When the API server stops serving a kind, the store of the kind is
//     emptied, with an event for each object, until the kind is served again.
//
// # Reads
//
// [Cache.Begin] opens a run, through which one reconcile reads. Everything that it
// reads of a kind is of one state. Every read becomes an edge from the key of the run
// to that object or list (package edges). A later change there calls [Hooks.Wake]
// for the keys that have read it. The objects, their snapshots and their indexes are
// in package objects. Whether a kind has a field by which objects are to be found is
// decided by the schema that the API server publishes (package openapi).
//
// # Own writes
//
// [OwnWrites] is what a plugin has written and its informers do not show yet. Its
// runs read it as if they did. An owner that knows such a state, because it wrote it
// or read it, is woken if a list goes past it, so that no event will have it.
//
// # Files
//
//	cache.go        the Cache, and which informers run
//	discovery.go    where a kind is served
//	informer.go     one informer: its life and what its users may call
//	listwatch.go    its requests, as client-go's reflector sends them
//	poll.go         its lists, if the kind cannot be watched
//	intervals.go    how often: the shortest interval of its users
//	restore.go      whether the API server has gone back to an earlier state
//	relist.go       the owners that a list leaves without an event
//	frames.go       a watch stream, cut into the frames of its events
//	decode.go       responses and frames, decoded to objects
//	store.go        its objects, as the reflector writes them
//	sweep.go        objects that nobody reads, which are packed
//	handlers.go     its events, delivered to its handlers
//	health.go       when it has begun to fail and has recovered
//	following.go    for metrics: how kinds are followed
//	derived.go      informers of objects that the host makes itself
//	runreads.go     what one run reads, and sees as one state
//	runlists.go     its lists: own writes in their place, and bounds
//	ownwrites.go    what a plugin wrote, until its informers show it
package cache
