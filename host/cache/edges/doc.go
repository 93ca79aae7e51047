// Package edges knows which keys have read an object that changes.
//
// An edge leads from a key of a controller to what one of its runs has read: an
// object, a list, a namespace of a kind, or the whole kind. It is an identity of 64
// bits, a hash, and not the names themselves: two that have the same lead to a run
// too many, never to one too few, and an edge takes the same few bytes whatever was
// read.
//
// Edges are bounded ([Config.PluginBytes], [Config.HostBytes], and by key). A key
// that reads more depends on a namespace or on the whole kind instead.
//
//	index.go     all edges: controllers, their keys, what they take
//	run.go       what one run reads, until its end
//	kind.go      the edges of one kind
//	changes.go   whom a change concerns
//	targets.go   what is read, as the identity of an edge
//	selection.go what a list selects
//	readers.go   the keys of one edge
//	bulk.go     wake-ups of very many keys
package edges
