// Package sandbox runs plugins: it loads a WebAssembly module, verifies it
// against thole/v1, and hands reconcile calls to isolated instances of it.
// It is the only package that knows the engine (wazero).
//
// A [Sandbox] holds what all plugins share: the engine and the compile cache.
// [Sandbox.Load] verifies and starts one plugin at one digest and gives a
// [Guest]; [Guest.Reconcile] makes a call; [Guest.Close] waits for the calls
// in flight and frees it.
//
// Guarantees:
//   - No guest code runs before the module's structure, exports, signatures,
//     imports and limits have been verified ([LoadError] says what is wrong).
//   - An instance makes one call at a time. What a call leaves, in memory
//     or elsewhere, is not visible to the next (recycle.go), except for modules of
//     the standard Go compiler, which are pooled without a reset unless
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
