//go:build unix

package source

import (
	"net"
	"strings"
	"syscall"
	"testing"
)

// TestOnlyRegularFilesAreOpened: opening a named pipe blocks until somebody
// writes, opening a device may do anything.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	s := newScene(t)
	s.write("policy.wasm", "1")
	for _, name := range []string{"pipe.wasm", "policy.yaml"} {
		if err := syscall.Mkfifo(s.path(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(s.dir) // the path of a socket may have some 100 bytes only
	socket, err := net.Listen("unix", "socket.wasm")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	link(t, "/dev/zero", s.path("device.wasm"))

	snapshot := s.settle()
	if len(snapshot) != 4 {
		t.Fatalf("got %v", snapshot)
	}
	for _, p := range snapshot {
		if !strings.Contains(errorText(p.Err), "is no regular file") {
			t.Errorf("%s: %v", p.Name, p.Err)
		}
	}
}
