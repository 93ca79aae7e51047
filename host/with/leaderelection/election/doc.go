// Package election decides which replica of the host runs which plugins, by Leases.
//
// A plugin belongs to one of a fixed number of shards, or has a Lease of its own. Each
// replica tries to lead every shard; one that leads fewer than others asks them for one. A
// replica that does not lead a plugin keeps it ready: see host/runner. Leader election is that
// of client-go; this package gives it what it reads from a watch, so that a Lease that was given
// up is taken over at once and those who wait send no requests.
//
//	election.go   the election: its configuration and its life
//	plugin.go     whether this replica leads a plugin, and may write for it
//	maintain.go   what is looked at after each change of a Lease
//	claims.go     what keeps replicas that disagree on the Lease of a plugin from both leading it
//	spread.go     Leases spread over replicas
//	lease.go      one Lease: who leads it, and until when writes may be sent
//	client.go     the client that client-go's leader election uses
//	listwatch.go  the watch of the Leases
//	log.go        what of client-go's log is kept
package election
