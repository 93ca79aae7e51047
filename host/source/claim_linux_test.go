package source

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/thole-dev/thole/host/internal/await"
)

// TestAWriterWaitsForTheRelease, and the signal that the kernel sends for it
// does not end this process.
func TestAWriterWaitsForTheRelease(t *testing.T) {
	s := newScene(t)
	needLeases(s)
	s.write("a.wasm", "1")
	f, err := os.Open(s.path("a.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := claimFile(f)
	if c.answer != held || !c.local {
		t.Fatalf("got %+v", c)
	}
	opened := make(chan error, 1)
	go func() {
		w, err := os.OpenFile(s.path("a.wasm"), os.O_WRONLY|os.O_TRUNC, 0)
		if err == nil {
			err = w.Close()
		}
		opened <- err
	}()
	await.Until(t, "the kernel asks for the lease", func() bool {
		kind := 0
		err := control(f, func(fd int) (err error) {
			kind, err = unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return kind == unix.F_UNLCK
	})
	if info, err := f.Stat(); err != nil || info.Size() != 1 || len(opened) > 0 {
		t.Fatalf("the writer has not waited: %v, %v", info, err)
	}
	if !c.release() {
		t.Error("the lease was lost")
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	if c.release() {
		t.Error("a lease that is not there was released")
	}
}

func TestAnotherUsersFileIsUnknown(t *testing.T) {
	s := newScene(t)
	needLeases(s)
	s.write("a.wasm", "1")
	if err := os.Chown(s.path("a.wasm"), os.Getuid()+1, -1); err != nil {
		t.Skip("this user cannot give files away")
	}
	f, err := os.Open(s.path("a.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	powerless(t, func() {
		if c := claimFile(f); c.answer != unknown || !c.local || !c.release() {
			t.Errorf("got %+v", c)
		}
	})
}

func TestOfVirtualFilesNothingIsKnown(t *testing.T) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if c := claimFile(f); c.answer != unknown || c.local {
		t.Errorf("got %+v", c)
	}
}

// TestWhatMayNotBeReadIsTold: files, policies and the directory itself.
func TestWhatMayNotBeReadIsTold(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"good.wasm", "module.wasm", "policy.wasm", "policy.yaml"} {
		s.write(name, "1")
	}
	chmod(t, s.path("module.wasm"), 0)
	chmod(t, s.path("policy.yaml"), 0)
	powerless(t, func() {
		snapshot := s.settle()
		if len(snapshot) != 3 || snapshot[0].Err != nil {
			t.Fatalf("got %v", snapshot)
		}
		for _, p := range snapshot[1:] {
			if text := errorText(p.Err); !strings.Contains(text, p.Name+".") || !strings.Contains(text, "permission denied: let the user that the host runs as read it") {
				t.Errorf("%s: %s", p.Name, text)
			}
		}
		chmod(t, s.path("module.wasm"), 0o600)
		chmod(t, s.path("policy.yaml"), 0o600)
		s.expect(s.settle(), "good=1 module=1 policy=1")
		chmod(t, s.dir, 0)
		if _, _, err := s.d.scan(); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("an unreadable directory: %v", err)
		}
		chmod(t, s.dir, 0o700)
		s.expect(s.scan(), "good=1 module=1 policy=1")
	})
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// powerless runs do without the capabilities that make root root. They are a
// thread's own: it ends with the goroutine that has not unlocked it.
func powerless(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			t.Error(err)
			return
		}
		do()
	}()
	<-done
}
