// Package costtest tests that a function takes time and memory linear in the
// length of its input.
package costtest

import (
	"encoding/json"
	"runtime"
	"testing"
	"time"
)

const (
	small, large, giant = 32 << 10, 128 << 10, 1 << 20

	// A function may take this multiple of the time that encoding/json takes to
	// validate the same text, and at least minBudget. Linear functions were
	// measured at up to 30 times, some 100 ms; quadratic ones take thousands of
	// times as long, 8 s and more.
	timesJSON = 300
	minBudget = 4 * time.Second
)

// Linear fails the test if the memory or time of f grows quadratically with its
// input, or if f allocates more than perByte bytes for each byte of input.
// text returns an input of about n bytes.
//
// Allocated memory is exact, so it is compared for two sizes. Times vary, so that of
// the processor, where it is known, is compared with a generous budget instead.
func Linear(t *testing.T, perByte int, text func(n int) []byte, f func([]byte)) {
	t.Helper()
	before, after := Allocated(f, text(small)), Allocated(f, text(large))
	// The runtime itself may allocate a few kilobytes meanwhile.
	if after > 8*before+32<<10 {
		t.Errorf("memory: %d bytes for an input of %d, %d bytes for one of %d: not linear", before, small, after, large)
	}
	if after > uint64(perByte*large)+32<<10 {
		t.Errorf("memory: %d bytes for an input of %d, more than %d per byte", after, large, perByte)
	}
	if !timed {
		return
	}
	input := text(giant)
	budget := max(minBudget, timesJSON*duration(func(text []byte) { json.Valid(text) }, input))
	if took := duration(f, input); took > budget {
		t.Errorf("time: %s for an input of %d bytes, more than %s", took, giant, budget)
	}
}

func duration(f func([]byte), text []byte) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	f(text)
	return threadTime() - start
}

// Allocated returns the number of bytes that f allocates, whether they are freed
// meanwhile or not.
func Allocated(f func([]byte), text []byte) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f(text)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Repeat returns open, then n bytes of part, separated by commas, then closing.
func Repeat(n int, open, part, closing string) []byte {
	return Number(n, open, func(int) string { return part }, closing)
}

// Number is [Repeat] with a different part for each number from 0 on.
func Number(n int, open string, part func(i int) string, closing string) []byte {
	out := make([]byte, 0, n+len(open)+len(closing)+64)
	out = append(out, open...)
	for i := 0; len(out) < n; i++ {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, part(i)...)
	}
	return append(out, closing...)
}
