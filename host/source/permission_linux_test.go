package source

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMissingPermissionIsAnErrorThatSaysWhatToDo(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"good.wasm", "module.wasm", "policy.wasm", "policy.yaml"} {
		f.write(name, "1")
	}
	chmod(t, f.path("module.wasm"), 0)
	chmod(t, f.path("policy.yaml"), 0)
	withoutCapabilities(t, func() {
		snapshot := f.settle()
		if len(snapshot) != 3 || snapshot[0].Err != nil {
			t.Fatalf("got %v", snapshot)
		}
		for _, p := range snapshot[1:] {
			if text := errorText(p.Err); !strings.Contains(text, p.Name+".") || !strings.Contains(text, "permission denied: let the user that the host runs as read it") {
				t.Errorf("%s: %s", p.Name, text)
			}
		}
		chmod(t, f.path("module.wasm"), 0o600)
		chmod(t, f.path("policy.yaml"), 0o600)
		f.expect(f.settle(), "good=1 module=1 policy=1")
		chmod(t, f.dir, 0)
		if _, _, err := f.d.scan(); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("the scan of an unreadable directory returned %v", err)
		}
		chmod(t, f.dir, 0o700)
		f.expect(f.scan(), "good=1 module=1 policy=1")
	})
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// withoutCapabilities runs do without the capabilities of root. They belong to
// a thread, which ends with the goroutine because it is not unlocked.
func withoutCapabilities(t *testing.T, do func()) {
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
