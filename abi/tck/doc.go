// Package tck is the conformance kit of thole/v1: guests as real WebAssembly,
// correct and hostile, with what a host must do with each of them, and
// checks for any guest.
//
//   - [Cases] lists the guests; [Run] loads and calls each through a [Host].
//   - [Check] looks at a guest's imports and exports without running it.
//   - [Module] assembles the guests, so that no compiler is needed.
//
// README.md shows how to run the kit against another host or guest.
package tck
