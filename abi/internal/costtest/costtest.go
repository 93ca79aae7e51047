// Package costtest finds out whether a function costs more than its input is
// worth.
package costtest

import (
	"encoding/json"
	"runtime"
	"testing"
	"time"
)

const (
	small, large, giant = 32 << 10, 128 << 10, 1 << 20

	// A function may take so many times what encoding/json takes to look
	// through the same text, and the time of leastBudget in any case. What
	// is linear takes up to 30 times as much, some 100 ms; what grows like
	// the square takes thousands of times as much, 8 s and more.
	timesJSON   = 300
	leastBudget = 4 * time.Second
)

// Linear fails the test if the memory or time that f takes grows like the
// square of its input, or if it takes more than perByte bytes of memory, freed
// ones counted, for each byte of input. text makes inputs of about n bytes.
//
// Memory is counted for two sizes and compared. Time cannot be counted, and
// comparing two measured times fails on a busy machine: so it has a budget.
func Linear(t *testing.T, perByte int, text func(n int) []byte, f func([]byte)) {
	t.Helper()
	before, after := Allocated(f, text(small)), Allocated(f, text(large))
	// A few kilobytes are noise of the runtime.
	if after > 8*before+32<<10 {
		t.Errorf("memory: %d bytes for %d, %d for %d: that is not linear", before, small, after, large)
	}
	if after > uint64(perByte*large)+32<<10 {
		t.Errorf("memory: %d bytes for %d, more than %d for each", after, large, perByte)
	}
	if !timed {
		return
	}
	input := text(giant)
	budget := max(leastBudget, timesJSON*duration(func(text []byte) { json.Valid(text) }, input))
	if took := duration(f, input); took > budget {
		t.Errorf("time: %s for %d bytes, more than %s", took, giant, budget)
	}
}

func duration(f func([]byte), text []byte) time.Duration {
	start := time.Now()
	f(text)
	return time.Since(start)
}

// Allocated is how many bytes of memory f takes, freed ones counted.
func Allocated(f func([]byte), text []byte) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f(text)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Repeat returns open, then part until there are n bytes, separated by commas,
// then the closing text.
func Repeat(n int, open, part, closing string) []byte {
	return Number(n, open, func(int) string { return part }, closing)
}

// Number is [Repeat] with a part for each number from 0 on.
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
