// Package daemon is the capability by which each object of a controller has a daemon (abi/daemon/SPEC.md): code
// that watches something for it, in steps. A step is a call of the guest in the turn of the object
// (dispatch.ObjectTurns). Between two steps a daemon is a value here, and the edges to what it has read.
package daemon
