package e2e

import (
	"bytes"
	"encoding/binary"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// inotify records when files in directories are opened, closed, created and moved.
// The host's library for this, fsnotify, does not report that files are read.
type inotify struct {
	file *os.File
	dirs map[int32]string // paths by watch descriptor

	mu     sync.Mutex
	events []fileEvent
}

// fileEvent is an event of a file.
type fileEvent struct {
	at        time.Time
	dir, name string
	mask      uint32
}

func (e fileEvent) opened() bool { return e.mask&syscall.IN_OPEN != 0 && e.name == "soak-0.wasm" }
func (e fileEvent) closed() bool {
	return e.mask&syscall.IN_CLOSE_NOWRITE != 0 && e.name == "soak-0.wasm"
}
func (e fileEvent) created() bool { return e.mask&syscall.IN_CREATE != 0 }
func (e fileEvent) moved() bool   { return e.mask&syscall.IN_MOVED_TO != 0 }

// newInotify watches directories until the test ends.
func newInotify(tb testing.TB, dirs ...string) *inotify {
	tb.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	must(tb, err)
	n := &inotify{file: os.NewFile(uintptr(fd), "inotify"), dirs: map[int32]string{}}
	for _, dir := range dirs {
		wd, err := syscall.InotifyAddWatch(fd, dir, syscall.IN_OPEN|syscall.IN_CLOSE_NOWRITE|syscall.IN_CREATE|syscall.IN_MOVED_TO)
		if err != nil {
			tb.Fatalf("watch %s: %v", dir, err)
		}
		n.dirs[int32(wd)] = dir
	}
	var ended sync.WaitGroup
	ended.Go(n.read)
	tb.Cleanup(func() {
		n.file.Close()
		ended.Wait()
	})
	return n
}

func (n *inotify) read() {
	buffer := make([]byte, 64<<10)
	for {
		size, err := n.file.Read(buffer)
		if err != nil {
			return // closed
		}
		at := time.Now()
		n.mu.Lock()
		for rest := buffer[:size]; len(rest) >= syscall.SizeofInotifyEvent; {
			length := syscall.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			name := bytes.TrimRight(rest[syscall.SizeofInotifyEvent:length], "\x00")
			wd, mask := int32(binary.NativeEndian.Uint32(rest)), binary.NativeEndian.Uint32(rest[4:])
			n.events = append(n.events, fileEvent{at, n.dirs[wd], string(name), mask})
			rest = rest[length:]
		}
		n.mu.Unlock()
	}
}

// drain returns the events since the last call.
func (n *inotify) drain() []fileEvent {
	n.mu.Lock()
	defer n.mu.Unlock()
	events := n.events
	n.events = nil
	return events
}
