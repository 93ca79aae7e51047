// Package kstatustest checks every status that the host writes with two libraries:
// Flux's conditions/check, and kstatus, by which Flux, kpt and others find out
// whether an object is reconciled.
//
// The program runs as a process against a real API server. A watch reports each
// version of each primary object, so that a status is checked even if it is
// replaced at once.
//
// It is a module of its own because the checkers need controller-runtime, which the
// host does not.
package kstatustest
