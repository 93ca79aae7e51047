// Package functionindexes is the capability by which objects are found by keys that a function of the plugin gives to
// them, with a value for each (abi/functionindexes/SPEC.md).
//
// An index calls the function for each object that the plugin follows of the kind, one after the other, and again when
// the object has changed. What it returns becomes an object of a kind of its own ([cache.DerivedKind]), which runs list
// by a field as they list any other kind. So the snapshots, edges and limits of reads are those of host/cache, and
// there is no second index.
//
//	capability.go the declaration, and the indexes of each plugin
//	index.go      an index: for which objects the function is called, and when
//	entries.go    what the function returns, as an object, and the lookup in it
package functionindexes
