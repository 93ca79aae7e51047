//go:build race

package costtest

// The race detector slows some functions down much more than others; the same
// tests run without it.
const timed = false
