// Package catalog knows which generation of each plugin runs: it loads a new
// one beside the running one, checks it against the others, has it started,
// and drains the one that it replaces.
//
// Guarantees:
//   - A failure of a new module changes nothing: the last good generation goes
//     on, and the reason is in the plugin's [Status].
//   - A plugin that waits (a kind that is not served yet) or fails never holds
//     up another one: each has its own goroutine. The loader sees to it that
//     modules are compiled one at a time.
//   - New code that does worse than the code before is rolled back; a policy
//     never is.
//   - A generation that is replaced is closed once it neither runs nor may be
//     gone back to; its guest waits for the calls in flight.
package catalog
