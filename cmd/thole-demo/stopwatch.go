package main

import "time"

// stopwatch measures a step: when it began.
type stopwatch struct{ begun time.Time }

func newStopwatch() stopwatch { return stopwatch{time.Now()} }

// elapsed is the time so far, for people.
func (s stopwatch) elapsed() string { return short(time.Since(s.begun)) }
