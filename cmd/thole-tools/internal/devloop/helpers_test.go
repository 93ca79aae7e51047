package devloop

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// limit is only spent by a test that fails.
const limit = 2 * time.Minute

// until waits for what another goroutine or process does.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	over := time.After(limit)
	for !done() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// tree writes files: path and text, path and text.
func tree(t *testing.T, dir string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		// By a rename, as editors do.
		if err := os.WriteFile(path+"~", []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+"~", path); err != nil {
			t.Fatal(err)
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
