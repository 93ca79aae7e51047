// Package objects holds the objects of one kind, in the order of their namespaces
// and names, with indexes by the values of labels and fields.
//
// A [Set] is what the informer of the kind changes. A [Snapshot] is the state of a
// set at one time: it is taken in constant time, because both share everything that
// has not changed since (the trees copy what they write), and read without a lock.
//
// An [Entry] holds an object as it was parsed, or packed while nobody reads it (pack.go).
// A [Sweep] packs them.
//
// A label or field is indexed when lists ask for it (indexes.go). A list is answered from
// the index that leaves the fewest objects to look at (selection.go).
package objects
