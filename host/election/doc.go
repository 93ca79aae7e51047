// Package election decides which replica of the host runs which plugins, by Leases.
//
// A plugin belongs to one of a fixed number of shards, or has a Lease of its own. Each
// replica tries to lead every shard. One that does not lead a plugin keeps it ready: see
// host/runner. Leader election is that of client-go; this package gives it what it reads from
// a watch, so that a Lease that was given up is taken over at once and those who wait send no
// requests.
//
//	election.go  the Leases of a replica
//	lease.go     one Lease: who leads it, and until when writes may be sent
//	log.go       what of client-go's log is kept
//	client.go    the client that client-go's leader election uses
package election
