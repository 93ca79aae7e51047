// Package leaderelection is the capability by which replicas of a host share its plugins: each plugin runs in one of
// them, and the others keep it ready. A host with one replica does without it.
//
//	capability.go the declaration, the rights of the host, what inspect notes of a module
//	settings.go   the sections of the configuration and of policies
//	replicas.go   joins the election to the host, and what is shown of it
//	record.go     what the leader of a plugin records of its modules for the others
//	kept.go       the last good modules
//	metrics.go    the metric
//	election      the Leases decide who leads a plugin, and until when it may write
//	lastgood      where last good modules are kept: a directory, and Secrets
//
// The Leases are given up when no plugin of this replica runs any more: see replicas.stop.
package leaderelection
