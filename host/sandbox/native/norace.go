//go:build !race

package native

const detectorMemory = 1
