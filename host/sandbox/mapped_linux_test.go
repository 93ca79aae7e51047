package sandbox

import (
	"bytes"
	"os"
	"testing"
)

// mapped is how many mappings the process has.
func mapped(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(maps, []byte("\n"))
}
