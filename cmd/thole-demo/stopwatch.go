package main

import (
	"time"

	"github.com/thole-dev/thole/cmd/internal/words"
)

// stopwatch measures a step: when it began.
type stopwatch struct{ begun time.Time }

func newStopwatch() stopwatch { return stopwatch{time.Now()} }

// elapsed is the time so far, for people.
func (s stopwatch) elapsed() string { return words.Duration(time.Since(s.begun)) }
