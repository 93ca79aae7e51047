// Package sdktest runs a plugin's controllers under plain go test. A [World]
// plays cluster and host: it holds objects, hands them to the reconcile
// function as a real host does, as encoded requests, and performs what the
// encoded results want. Tests read as scenarios:
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
// The world is honest about what it checks: manifests, requests and results go
// through the codec of package abi, which is strict; reads are held against the
// manifest and the namespace, intents too, and against the owner of what they
// touch, with the reasons that the host has; what a run leads to is decided by
// the host's own function; effects happen in the host's order, and when one
// fails the rest is skipped, the status is not written, and the next request
// tells about it.
//
// It is not a Kubernetes API server. There is no schema, no defaulting, no
// validation, no admission, no immutable field, no right that could be
// missing, and no controller but the one under test, garbage collection of
// owned objects excepted. Apply is a merge patch that also removes what the
// last apply had and this one has not: lists are replaced, never merged by key,
// an object that has become empty stays, and nobody else owns fields. Nothing is concurrent: nothing runs before the
// test says so, and no cache lags behind. Events of the host itself, retries
// in time, write budgets and admission of the plugin's policy are left out.
//
// Package wasmtest puts the compiled plugin into the same world.
package sdktest
