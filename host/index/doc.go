// Package index keeps what a plugin's function gives to the objects of a kind: keys by which
// they are found, with a value for each (abi/SPEC.md, "Index request" and "index_get").
//
// An [Index] calls the function for each object that the plugin follows of the kind, one after
// the other, and again when the object has changed. What it returns becomes an object of a
// kind of its own ([Kind]), which runs list by a field as they list any other kind. So the
// snapshots, edges and limits of reads are those of host/cache, and there is no second index.
//
//	index.go    the Index: for which objects the function is called, and when
//	entries.go  what the function returns, as an object, and the lookup in it
package index
