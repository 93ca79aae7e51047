// Package host is the controller host: one process that runs any number of
// controllers, each a function in a sandboxed WebAssembly module.
//
// Data flows through its stages in this order, one package each:
//
//	source    where plugins come from: a directory
//	catalog   which revision of each plugin runs
//	cache     the objects of the cluster as raw JSON, and which keys have read them
//	queue     the keys that are due, one queue per controller
//	dispatch  the worker: one key from the queue through the stages and back
//	sandbox   the code of the plugin, contained
//	outcome   what a result means, as a pure function
//	effect    what is written to the cluster
//
// runner runs one plugin: it joins its controllers to the stages, and starts,
// swaps and stops them for the catalog. Beside the stages are config (the
// configuration file, limits, policy), rights (which verbs a plugin may use on
// which objects), access (what the API server allows its service account, and who sends
// requests to the host), certificates (those that the host serves TLS with), egress
// (the HTTP requests of plugins), cloudevents (what happens to objects, for
// receivers outside), receive (events from outside), election (which replica of the
// host leads a plugin), lastgood (modules that outlive the replicas), webhook (reviews and conversions for the API server),
// events (what happens, as typed values; logs and metrics observe them), telemetry
// (logs, metrics), status (what operators see of plugins and objects: /plugins and the page
// /ui), serve (HTTP), podevents (Kubernetes Events) and object (the vocabulary that all share).
//
// Stages know neither each other nor dispatch. host.go starts them in this order
// and stops them in reverse; wiring.go joins catalog, sandbox and serve,
// replicas.go and told.go catalog and election, webhooks.go webhook and runner, received.go receive and runner,
// secure.go access and certificates to serve.
package host
