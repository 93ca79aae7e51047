//go:build race

package sandbox

// raceDetector slows the host down some ten times.
const raceDetector = true
