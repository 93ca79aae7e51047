//go:build unix

package source

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// TestANamedPipeIsNotWaitedFor: opening one blocks until somebody writes.
func TestANamedPipeIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "policy.wasm", "1")
	for _, name := range []string{"module.wasm", "policy.yaml"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := NewDirectory(Config{Path: dir, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := d.Scan()
	if err != nil || len(snapshot) != 2 {
		t.Fatalf("%v, %v", snapshot, err)
	}
	for _, p := range snapshot {
		if !strings.Contains(errorText(p.Err), "is no regular file") {
			t.Errorf("%s: %v", p.Name, p.Err)
		}
	}
}
