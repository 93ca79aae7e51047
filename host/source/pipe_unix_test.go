//go:build unix

package source

import (
	"bytes"
	"errors"
	"net"
	"os"
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

	snapshot := f.settle()
	if len(snapshot) != 3 {
		t.Fatalf("got %v", snapshot)
	}
	for _, p := range snapshot {
		if !strings.Contains(errorText(p.Err), "is not a regular file") {
			t.Errorf("%s: %v", p.Name, p.Err)
		}
	}
}

// TestPipeThatReplacesAFileIsNotRead: a read would wait for its writer.
func TestPipeThatReplacesAFileIsNotRead(t *testing.T) {
	f := newFixture(t)
	f.write("a.wasm", "1")
	snapshot := f.settle()
	f.remove("a.wasm")
	if err := syscall.Mkfifo(f.path("a.wasm"), 0o644); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(f.path("a.wasm"), os.O_RDWR, 0) // which writes nothing
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	seen := snapshot[0]
	opened, err := openFile(f.path("a.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	open := func(string) (*os.File, error) { return opened, nil }
	regular := f.d.plugins["a"].read.module // as if it were replaced after its stat was taken
	var buffer bytes.Buffer
	if _, err := f.d.moduleFile().read(open, seen.Path, regular, &buffer); !errors.Is(err, errChanged) {
		t.Errorf("error = %v", err)
	}
	if _, err := seen.Read(); err == nil {
		t.Error("the pipe was read")
	}
}
