// Package election decides which replica of the host runs which plugins, by Leases.
//
// A plugin belongs to one of a fixed number of shards, or has a Lease of its own. Each
// replica tries to lead every shard; one that leads fewer than others asks them for one. A
// replica that does not lead a plugin keeps it ready: see host/runner. Leases are held by
// the protocol of client-go. They are read from a watch, so that a Lease that was given up is taken
// over at once, and a replica that waits sends no requests.
//
//	election.go   the election: its configuration and its life
//	plugin.go     whether this replica leads a plugin, and may write for it
//	maintain.go   what is looked at after each change of a Lease
//	claims.go     what keeps replicas that disagree on the Lease of a plugin from both leading it
//	spread.go     Leases spread over replicas
//	lease.go      one Lease: who leads it, and until when writes may be sent
//	elector.go    acquires, renews and releases a Lease
//	client.go     the requests of the elector
//	listwatch.go  the watch of the Leases
package election
