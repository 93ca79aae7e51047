//go:build unix

package source

import (
	"net"
	"strings"
	"syscall"
	"testing"
)

// TestOnlyRegularFilesAreOpened covers files that must not be opened: a named
// pipe blocks until somebody writes to it, and a device may do anything.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	f := newFixture(t)
	f.write("policy.wasm", "1")
	for _, name := range []string{"pipe.wasm", "policy.yaml"} {
		if err := syscall.Mkfifo(f.path(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(f.dir) // the path of a socket is limited to about 100 bytes
	socket, err := net.Listen("unix", "socket.wasm")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	link(t, "/dev/zero", f.path("device.wasm"))

	snapshot := f.settle()
	if len(snapshot) != 4 {
		t.Fatalf("got %v", snapshot)
	}
	for _, p := range snapshot {
		if !strings.Contains(errorText(p.Err), "is not a regular file") {
			t.Errorf("%s: %v", p.Name, p.Err)
		}
	}
}
