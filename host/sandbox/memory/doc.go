// Package memory gives guests their linear memory.
//
// A [Budget] is what all guests of a host have together; each of them has a
// [Share] of it. A [Linear] is the memory of one instance: it grows in a range
// of addresses that is its own, so that nothing is copied, and never beyond
// its limit and the budget. An [Image] is what a memory was at one time, and
// [Linear.Restore] makes it that again, for little more than what was changed.
package memory
