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
// swaps and stops them for the catalog; its PluginStatus is what /plugins has of one. Beside the stages are config (the
// configuration file, limits, policy), rights (which verbs a plugin may use on
// which objects), access (what the API server allows its service account, and who sends
// requests to the host), certificates (those that the host serves TLS with),
// events (what happens, as typed values; logs and metrics observe them), telemetry
// (logs, metrics), serve (HTTP), kubeevents (Kubernetes Events) and object (the vocabulary that all share).
//
// Stages know neither each other nor dispatch. host.go starts them in this order
// and stops them in reverse; wiring.go joins catalog, sandbox and serve, secure.go access and certificates to
// serve; directory.go has what capabilities learn of plugins that do not run.
//
// # Capabilities
//
// What a plausible user does without is a capability, in a folder of host/with with all that is its own. The
// stages do not know it: they have hooks, and with.Capability joins a capability to them. The list in
// host/with/standard is what thole has, in the order in which hooks are called. A host is built without a
// capability by removing its line, and refuses plugins and policies that name it.
//
// This is how one is made; host/with/cloudevents is an example.
//
//  1. abi/<name> has what hosts and guests share, if there is something: the constant Name, which is that of its
//     section in the controllers of manifests, the messages, and their SPEC.md. A section is any JSON value that
//     is not null: see abi.Controller.Section. The package imports nothing but the standard library and abi. Its messages
//     list their fields as those of the core do (abi/message), so that errors have the path within the section. The
//     page is named in the table of abi/SPEC.md. Requests and results have sections, too; host/with/changes is an
//     example. The name is in camel case, such as cloudEvents; the folders have it in lower case.
//  2. host/with/<name>/capability.go has Capability(), which returns the declaration: what checks a section (Check),
//     which functions of guests it calls (Exports) and of the host it answers (Imports), what a policy may have
//     (Policy, a struct with JSON tags that implements config.PolicySection, and config.Bounded if the configuration
//     bounds its numbers) and must have for a manifest (Missing), what the file of --config may have (Config, which
//     implements config.HostSection, config.Bounding if it bounds policies, config.Flagged if flags of thole run win
//     over it, and config.Listening if it has an address to listen on) and what it has in allow for each plugin
//     (Allow, which is config.Named if allow lists the plugins), what the account of the host needs for it (Rules,
//     PluginRules), the row of thole inspect (Title, Describe; Note, of a module), and what it does in a host (New).
//  3. New is called once for each host, with a runner.Environment. It registers metrics, which are removed
//     with a plugin by their first label, or a prometheus.Collector, and returns a runner.Capability. Series are made
//     when the plugin runs: the start of a plugin may fail after its part was made. The capability serves requests
//     by handlers: of clients whose token it checks itself (Serve; host/with/receives is an example), or who may get a
//     path (Views; host/with/page is one). It returns a part for each
//     plugin (runner.PluginPart), and that one for each controller (runner.ControllerPart), with the hooks of
//     the worker (dispatch.Hooks). A function that is nil is not called. The comment of each one states when
//     it is called, by which goroutine, and whether it may block. State is what the functions of a part
//     share: nothing is global, nothing is registered in init. A test can call them without a host, by
//     Capability().New(env).Plugin("p").
//     What only has to know what happens needs no hook: Observe receives the events of the host. host/with/traces
//     is an example.
//     A capability with a server of its own listens in Start, before a plugin is loaded, and what Start returns
//     serves until plugins are to stop. Ready is its part of /readyz, and Problem what /plugins has of a plugin for
//     which it cannot do what it should. Environment.Directory has the plugins that do not run, too. Starting is
//     called with a revision before its informers sync, whose guest may be called from then on. Handle.Call calls
//     an export of the guest beside the queue (dispatch.ExportCall), until Ended, and Handle.Kept returns what is kept
//     for a revision. host/with/webhooks is an example.
//     Calls of the guest for an object beside its runs are turns (dispatch.ObjectTurns), as in host/with/daemon.
//     Those for no object are turns, too (dispatch.Turn): the core makes them, and makes the objects due that they
//     find. host/with/scans is an example. A function of the host that it answers is in the hooks, too
//     (dispatch.ImportCall); what it needs for the calls of a revision is made with that (runner.Use). host/with/http
//     is an example. Which replica of the host leads which plugin, and what replicas share of modules, is decided by
//     one capability (runner.Leaders), host/with/leaderelection. What runs are to read as they read objects, and no
//     API server has, is derived from objects (cache.Informer.Derive). host/with/functionindexes is an example.
//  4. What operators have to know at once is reported by events.Notice, as a line of the log and as an Event on
//     the pod of the host; at most once a minute for the same. It may be observed with locks held. Constants whose
//     names begin with event and reason have its names, with a comment each: "eventX reports that ..." before the
//     one, a phrase behind the other. docs/reference is generated from them, from the metrics and from the fields
//     of policies, by go generate ./host/internal/doctest.
//  5. host/with/standard has the line, and sdk what authors write, which adds the section to the manifest.
//
// host/internal/deptest keeps the walls: no package but the list imports a capability, the core has none of
// its names, in code or in tests, and all of the host is built without each of them.
package host
