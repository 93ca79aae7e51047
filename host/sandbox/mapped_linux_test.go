package sandbox

import (
	"bytes"
	"os"
	"testing"
)

// mapped returns the number of memory mappings of the process.
func mapped(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(maps, []byte("\n"))
}
