// Package scope says which objects of a kind are followed, and what of them.
//
// A [Scope] is an entry of for, owns, reads or watches of a manifest (abi/spec/reads.md,
// "Followed kind"), within the namespaces that the administrator allows. [OfManifest]
// collects what a plugin follows. The cache keeps an informer for each scope that no
// other one covers, and whatever it serves by a wider informer is filtered by the scope:
// see Cache.Acquire.
//
//	scope.go     one scope: which objects are in it, and which scopes it covers
//	implies.go   whether one label selector selects nothing that another does not
//	reads.go     whether a get or list asks for more than is followed
//	manifest.go  the scopes of a manifest
//	poll.go      how often it wants kinds to be listed that cannot be watched
package scope
