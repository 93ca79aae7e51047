//go:build race

package costtest

// The race detector slows some functions down much more than others, so that
// times mean little. The tests run without it too.
const timed = false
