//go:build !race

package tholetest

// RaceDetector reports whether the test has the race detector, and with it the
// programs that [Program] builds.
const RaceDetector = false
