//go:build race

package native

// detectorMemory is how many times as much memory a compiler may have in a program that
// was built with the race detector, which keeps data about all that is allocated.
const detectorMemory = 3
