package native

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// mount mounts a file system in memory at a directory. The test needs the right
// to do so.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount a file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestCompilerWritesToMemoryIfAllDisksAreFull, or are no safe place for code.
func TestCompilerWritesToMemoryIfAllDisksAreFull(t *testing.T) {
	if _, err := os.Stat(sharedMemory); err != nil {
		t.Skip(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	unsafe := t.TempDir()
	if err := os.Chmod(unsafe, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, temporary := range map[string]string{"full": mount(t, "size=64k,mode=0700"), "unsafe": unsafe} {
		t.Run(name, func(t *testing.T) {
			c := compilerOf(t, "works")
			c.Dir = filepath.Join(mount(t, "size=64k,mode=0700"), "cache")
			t.Setenv("TMPDIR", temporary)
			s := open(t, c)
			for _, disk := range []string{filepath.Dir(c.Dir), temporary} {
				if disk != unsafe {
					fill(t, disk)
				}
			}
			m := compile(t, s, "key", 7)
			wantRun(t, m, 7)
			if s.inMemory.runtime != nil {
				t.Error("it was compiled in this process")
			}
			if left, err := os.ReadDir(unsafe); err != nil || len(left) != 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

func fill(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
}
