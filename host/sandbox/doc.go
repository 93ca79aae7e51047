// Package sandbox runs plugins: it loads a WebAssembly module, verifies it
// against thole/v1, and hands reconcile calls to isolated instances of it.
// It is the only package that knows the engine (wazero).
//
// A [Sandbox] holds what all plugins share. [Sandbox.Load] verifies and starts
// one plugin at one digest and gives a [Guest]; [Guest.Reconcile] makes a call;
// [Guest.Close] waits for the calls in flight and frees it.
//
// The parts that stand on their own are packages below, in the order in which a
// plugin meets them:
//
//	module    reads the file, and refuses what would hurt to read
//	meter     compiles fuel into it
//	native    makes native code of it, keeps that on disk, and brings it back
//	memory    gives its instances memory, and makes it what it was
//	schedule  gives its calls a processor, by turns
//	deadline  ends them in time
//	wasi      answers what compilers' runtimes ask a system
//
// What is here is the guest's life. Its load is load.go, which calls build.go
// (the code), verify.go (the contract), and manifest.go. Its calls are guest.go,
// which takes an instance (pool.go, recycle.go, instance.go), enters it with the
// state of one call (call.go, hostfuncs.go, fuel.go), and tells what went wrong
// (fault.go, trace.go). What happens between calls is ahead.go, growth.go,
// idle.go and reclaim.go.
//
// Guarantees:
//   - No guest code runs before the module's structure, exports, signatures,
//     imports and limits have been verified ([LoadError] says what is wrong).
//   - An instance makes one call at a time. What a call leaves, in memory
//     or elsewhere, is not visible to the next (recycle.go), except for modules
//     of the standard Go compiler, which are pooled without a reset unless
//     [Plugin.Isolate] is set: their runtime's heap takes longer to restore
//     than most reconciles run.
//   - A call ends by its deadline, within its fuel, memory, output, host-call and
//     log limits; whatever goes wrong inside is a [Fault] with a class, and the
//     host goes on.
//   - A plugin that is not called gives up its instances after
//     [Config.IdleInstances] and its native code [Config.IdleCode] later. The
//     next call brings them back; calls that come meanwhile wait.
//   - Time and randomness come from the [Call]. The same request, replies, time
//     and seed give the same output and use the same fuel (reset guests).
package sandbox
