// Package kstatustest holds every status that the host writes against what the
// field's own checkers say: Flux's conditions/check, and the kstatus library by
// which Flux, kpt and others tell whether an object is done.
//
// The program runs as a process against a real API server. A watch sees each
// version of each primary, so that also a status that stood for a moment only
// is looked at.
//
// It is a module of its own because the checkers bring controller-runtime with
// them, which the host does not need.
package kstatustest
