//go:build !race

package costtest

const timed = true
