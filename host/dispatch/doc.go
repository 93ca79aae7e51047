// Package dispatch is the worker: it takes a key from the queue, reads its
// object, has the plugin reconcile it in the sandbox, decides what the result
// means, performs the effects and settles the key. worker.go reads from top to
// bottom as that sentence.
//
// It knows the other stages by the interfaces in ports.go alone; package host
// wires them. The one exception is package outcome, which is a pure function
// and a vocabulary.
//
// Guarantees:
//   - One key is never reconciled twice at once, and a whole run sees one
//     generation of its plugin.
//   - Nothing is written unless the guest returned.
//   - A run starts only when the cache shows what the run before has written,
//     or when the primary was read from the API server instead.
//   - While the breaker of a plugin is open its keys stay in their queues, and
//     one run at a time probes it. Other plugins have breakers of their own.
package dispatch
