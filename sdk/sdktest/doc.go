// Package sdktest runs a plugin's controllers under plain go test. A [World] takes
// the place of cluster and host: it holds objects, passes them to the reconcile
// function as a host does, as encoded requests, and performs the intents of the
// encoded results. Tests read as scenarios:
//
//	w := sdktest.New(t)
//	w.Create(`{"apiVersion":"example.thole.dev/v1","kind":"PodManager",
//		"metadata":{"namespace":"default","name":"web"},"spec":{"image":"nginx"}}`)
//
//	run := w.Reconcile("default/web")
//	run.ExpectReady()
//	run.ExpectWrites("finalizer", "apply v1 Pod default/web", "status")
//	w.Settle("default/web").ExpectNoWrites()
//
// What it checks, it checks as the host does: manifests, requests and results pass
// through the strict codec of package abi. Reads and intents are checked against the
// manifest, the namespace, the owner of the object and what the controller follows, and
// fail with the reasons of the host. The outcome of a run is decided by the host's own function. Effects have
// the host's order; when one fails the rest is skipped, the status is not written,
// and the next request has the failure.
//
// If the controller has Changes, requests have their change, and the annotation of the
// handled state is really on the object. [World.Restart] is a restart of the host, and
// [World.ReconcileGone] the run for an object that was deleted without a cleanup. [World.Vanish]
// deletes one in spite of its finalizer.
//
// If the controller has Timers, a run has those that are due by the time of the world, which
// [World.Advance] moves, and [Run.NextTimer] is when the next one is due.
//
// If the controller has a Daemon, [World.Step] makes a step of that of one object, if one is due,
// and the next request for the object has its signals:
//
//	w.Reconcile("default/web") // adds the finalizer, without which there is no daemon
//	w.Step("default/web").ExpectEvents(sdk.DaemonStart).ExpectSignals("0")
//	w.Create(pod)
//	w.Step("default/web").ExpectEvents(sdk.DaemonIndex).ExpectSignals("1")
//	w.Reconcile("default/web") // has both signals
//
// What a step has read is read again to find out whether it has changed. Limits of daemons, their
// deadlines and their backoff are left out.
//
// If the controller has Receives, [World.Receive] is a CloudEvent from outside. The next request of each
// object that it is for has it, until a run has ended well:
//
//	w.Receive(`{"specversion":"1.0","id":"1","source":"runtime","type":"container.stopped","data":{"containerId":"c-7"}}`)
//	w.Reconcile("default/web")
//
// Who may send it, and how often, is left out.
//
// If the controller has Validate, Mutate or Convert, the world reviews requests and converts objects,
// of which it stores none:
//
//	w.As("ann", "shops")
//	w.ReviewCreate(site).ExpectAllowed().ExpectObject(`{"spec":{"replicas":1}}`)
//	w.ReviewUpdate(ref, `{"spec":{"zone":"b"}}`).ExpectDenied("Invalid", "zone")
//	w.ReviewDelete(ref).ExpectFailure(abi.ClassRetry, "Unavailable")
//	w.Convert(site, "v1beta1").ExpectObject(`{"spec":{"size":1}}`)
//	sdktest.RoundTrip[Spec, Status](w, "v1", "v1beta1") // finds the fields that a conversion loses
//
// Neither Create nor Change are reviewed, and the policy of a plugin for its webhooks is left out.
//
// It is not a Kubernetes API server. It has no schema, defaulting, validation,
// admission or RBAC, no immutable fields but those of [World.Immutable], no grace periods and no
// deletion in the foreground, which is as one in the background, and no controller but the one
// under test, except for garbage collection of owned objects. Apply is a merge patch that also
// removes what the last apply had and this one has not: lists are replaced and never
// merged by key, an object that has become empty remains, and there are no other
// field managers: primaries that share an object take each other's fields away, and
// release none. Nothing is concurrent: nothing runs before the test calls it, and
// caches do not lag behind. With [sdk.Managed], what the primaries control before the
// first run counts as applied by the plugin. Field selectors are compared with the fields
// of the objects, without the defaults of the API server. Events of the host itself, timed retries, jitter,
// suspended objects, write loops, postponed writes and the policy of the plugin are left out.
//
// Package wasmtest runs the compiled plugin in the same world.
package sdktest
