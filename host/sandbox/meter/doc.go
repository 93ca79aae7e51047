// Package meter compiles fuel into a module before the engine sees it: the
// code counts what it executes, and calls the host when a slice is used up.
// Nothing else can stop native code, or even pause it for the garbage
// collector.
//
// A check subtracts, from a global of the module's own, the instructions that
// may follow until they are paid by another check, and calls the host if
// the global is below zero. [Rewrite] places checks such that
//   - every instruction is paid before it runs: at any time, the fuel that was
//     charged is at least the number of instructions executed, and
//   - between two checks at most [Report.Bound] instructions run, whatever
//     path is taken through branches, calls and returns.
//
// Both follow from one pass over each function, callees first; see place.go
// for the pass, and RATIONALE.md for the proof and for what it costs.
package meter
