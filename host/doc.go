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
// runner runs one plugin: it joins its controllers to the stages, and starts, swaps and stops them for the catalog.
//
// Beside the stages are config (the configuration file, limits, policy), rights (what a policy lets a plugin do), access
// (what the API server lets its service account do, and who sends requests to the host), certificates (those that the
// host serves TLS with), events (what happens, as typed values; logs and metrics observe them), telemetry (logs,
// metrics), serve (HTTP), kubeevents (Kubernetes Events), kube (typed clients for what the host itself reads and writes)
// and object (the vocabulary that all share).
//
// Stages know neither each other nor dispatch. host.go makes them in this order, as a list, and stops them in reverse;
// wiring.go joins catalog, sandbox and serve, secure.go access and certificates to serve; metrics.go has the numbers that
// the stages keep; directory.go has what capabilities learn of plugins that do not run.
//
// # Where a question is answered
//
//	what makes a key due               dispatch/due.go; when: queue/rules.go, and queue/deadlines.go for times
//	when is a failed run tried again   outcome/outcome.go, outcome/classify.go, outcome/next.go; which error of the API
//	                                   server is what: effect/apierrors.go; postponed effects: dispatch/postponed.go
//	may a plugin use a verb on an      rights/may.go, which has the order of who says no; dispatch/mayread.go for
//	object, and who says so            reads, effect/scope.go for writes
//	who leads a plugin                 with/leaderelection/election: plugin.go (leaseOf, look, Leader), lease.go,
//	                                   claims.go; runner/leaders.go is how the core asks
//	in which state is a plugin         catalog/state.go; its facts: catalog/status.go (statusOf), runner/status.go (Impairments)
//	what is sent for a run             effect/plan.go, effect/requests.go
//	which revision runs a key          dispatch/worker.go, revisionFor
//
// Three ways through the host:
//
//	from an edit to a status           cache/store.go, runner/controller.go (follow), dispatch/triggers.go, dispatch/due.go,
//	                                   queue/queue.go, dispatch/worker.go, dispatch/call.go, outcome/outcome.go,
//	                                   dispatch/perform.go, effect/status.go
//	from a file to a running plugin    source/directory.go, wiring.go (modules), catalog/catalog.go (Update),
//	                                   catalog/supervisor.go, catalog/pin.go, sandbox/load.go, runner/start.go,
//	                                   runner/controller.go
//	from a review to its answer        with/webhooks: server.go, plugins.go, admission.go, call.go; dispatch/exportcalls.go
//
// # Capabilities
//
// What a plausible user does without is a capability, in a folder of host/with with all that is its own. The
// stages do not know it: they have hooks, and with.Capability joins a capability to them. The list in
// host/with/standard is what thole has, in the order in which hooks are called. A host is built without a
// capability by removing its line, and refuses plugins and policies that name it.
//
// This is how one is made. Read beside it: timers for state of objects, changes for what is written on the primary and
// for sections of requests and results, daemon for a policy with numbers, cloudevents for a queue of its own.
//
//  1. abi/<name> has what hosts and guests share, if there is something: the constant Name, the messages, and their
//     SPEC.md, which the table of abi/SPEC.md names. Name is in camel case, such as cloudEvents, and is that of the
//     section in the controllers of manifests; folders have it in lower case. A section is any JSON value that is not
//     null: see abi.Controller.Section. The package imports nothing but the standard library and abi. Its messages list
//     their fields as those of the core do (abi/message), so that errors have the path within the section.
//
//  2. host/with/<name>/capability.go has Capability(), which returns the declaration: what it asks of manifests, guests
//     and policies, the rights that it needs, its row in thole inspect, and what it does in a host. with/with.go has the
//     fields. Uses is needed if it patches primaries, or the rights that are asked for lack that. A plugin whose policy
//     lacks what Missing returns waits, and shows its text.
//
//     A policy is config.Bounded if the configuration bounds its numbers, by config.Bounding: a bound is a maximum, so
//     that more must be the larger number. Config is config.Flagged if flags of thole run win over it, and
//     config.Listening if it has an address to listen on. Allow is config.Named if allow lists the plugins.
//
//  3. New is called once for each host, with a runner.Environment, and returns a runner.Capability. That returns a part
//     for each plugin (runner.PluginPart), and that one for each controller (runner.ControllerPart), with the hooks of
//     the worker (dispatch.Hooks). A function that is nil is not called. The comment of each one states when it is
//     called, by which goroutine, and whether it may block. What the functions of a part share they share by what they
//     are methods of: nothing is global, nothing is registered in init. A test calls them without a host, by
//     Capability().New(env).Plugin("p").
//
//     What is kept for an object is the state of the hooks, which Begin gets a pointer to; what is kept for a run is its
//     Kept. Both are in the core's record, under the core's lock. Runs are counted in Begin: Performed may be called
//     again for the same run.
//
//     What is to be written on the primary after a run is written in Performed, by Annotate: the event of that makes
//     the object not due. That of Patch does, as a patch of the guest. An annotation <controller>.<plugin>.thole.dev/<word>
//     (abi.StateAnnotation) runs nothing and is in no request. Under any other name it is an edit for all other
//     controllers of the kind, and two that answer each other never stop.
//
//     What only has to know what happens needs no hook: Observe receives the events of the host (traces).
//
//     Metrics are registered in New: series, which are removed with a plugin by their first label, or a
//     prometheus.Collector. Series are made in Swapped, since the start of a plugin may fail after its part was made
//     (daemon/metrics.go).
//
//     Start has what the host has once its stages were made (runner.Host): the plugins that do not run, too, for example.
//     What has an address of its own listens there, and what Start returns serves until plugins are to stop. Ready is its
//     part of /readyz, and Problem what /plugins has of a plugin for which it cannot do what it should (webhooks). Requests
//     of clients with a token are served by Serve (receives), those of people by Views (page).
//
//     The guest is called beside the queue by Handle.Call, until Ended (webhooks); for an object beside its runs by turns
//     of its own (dispatch.ObjectTurns: daemon); for no object by turns (dispatch.Turn: scans), which find objects to run.
//     What a guest calls is answered by Imports of the hooks (dispatch.ImportCall), with what was made for the revision
//     (runner.Use: http). What runs read as they read objects, and no API server has, is derived from objects
//     (cache.Informer.Derive: functionindexes). Which replica leads which plugin, and what replicas share of modules, is
//     decided by one capability (runner.Leaders: leaderelection).
//
//  4. What operators have to know at once is reported by events.Notice, as a line of the log and as an Event on the pod
//     of the host; at most once a minute for the same. It may be observed with locks held. Constants whose names begin
//     with event and reason have its names, with a comment each: "eventX reports that ..." before the one, a phrase
//     behind the other. docs/reference has them, and the metrics, by go generate ./host/internal/doctest. The reasons of
//     Events about objects have no such names. The fields of a policy are in a block of docs/reference/configuration.md,
//     under a heading with the name, which a line of host/internal/doctest/reference_test.go has generated.
//
//  5. host/with/standard has the line. sdk has what authors write, which adds the section to the manifest, and
//     sdk/sdktest/wasmtest/capabilities.go a line for it. The golden file of cmd/thole/testdata/script/inspect.txtar gets
//     the row, by go test ./cmd/thole -run TestScripts/inspect -update.
//
//  6. Tests are in the capability's folder. One with a host makes it by host.New with with.List{Capability()}.
//
// host/internal/deptest keeps the walls: no package but the list imports a capability, the core has none of
// its names, in code or in tests, and all of the host is built without each of them.
package host
