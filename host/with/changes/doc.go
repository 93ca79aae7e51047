// Package changes tells each run how its object differs from its handled state: what the last run was given that ended
// well (abi/changes/SPEC.md).
//
//	capability.go  the declaration
//	changes.go     what is known of an object, and what the request of a run has of that
//	memory.go      the handled state in the memory of the host
//	annotation.go  the handled state in an annotation of the object
//	handled        the handled state, and how an object differs from it
package changes
