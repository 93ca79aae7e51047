//go:build race

package sandbox

// raceDetector reports whether this is a -race build, in which all code takes some
// ten times longer. Tests with many calls make fewer then.
const raceDetector = true
