// Package host is the controller host: one process that runs any number of
// controllers, each a function in a sandboxed WebAssembly module.
//
// Data flows through its stages in this order, one package each:
//
//	source    where plugins come from: a directory today
//	catalog   which generation of each plugin runs
//	cache     the objects of the cluster as raw JSON, and who has read them
//	queue     the keys that are due, one queue per controller
//	dispatch  the worker: one key from the queue through the rest and back
//	sandbox   the plugin's code, contained
//	outcome   what a result means, as a pure function
//	effect    what is written to the cluster
//
// Beside them stand telemetry (logs, metrics), serve (probes, metrics,
// plugin states) and object (the vocabulary that they share). A stage never
// imports its neighbour: host.go starts them in this order and stops them in
// reverse, wiring_*.go joins the interfaces of one to the types of another.
package host
