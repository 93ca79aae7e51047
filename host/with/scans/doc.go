// Package scans is the capability by which a function of a controller runs at an interval, once for all objects
// and all replicas of the host, and finds the objects to run (abi/scans/SPEC.md).
//
//	capability.go the declaration, and the scans of each controller, which are turns of the core (dispatch.Turn)
//	metrics.go    the series of each scan
//
// A scan is of a controller, and not of the plugin: it names objects of one kind, by keys of one queue, and what it
// may read and which worker makes it are those of a controller. A plugin that looks for objects of two kinds has
// two scans.
package scans
