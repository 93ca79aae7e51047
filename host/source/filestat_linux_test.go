package source

import (
	"bytes"
	"strings"
	"testing"
)

// TestFileLargerThanItsSizeIsRefused reads a file of which stat returns size 0.
func TestFileLargerThanItsSizeIsRefused(t *testing.T) {
	const path = "/proc/version"
	seen := statFile(path)
	content, err := policyFile.read(openFile, path, seen, new(bytes.Buffer))
	if err != nil || len(content) <= 10 {
		t.Fatalf("read %q, %v", content, err)
	}
	content, err = fileKind{limit: 10}.read(openFile, path, seen, new(bytes.Buffer))
	if err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Errorf("read %q, %v", content, err)
	}
}
