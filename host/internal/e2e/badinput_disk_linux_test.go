package e2e

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// TestTheDiskOfTheCompileCacheIsFull: the plugin runs, and what is wrong is
// told. It needs the right to mount.
func TestTheDiskOfTheCompileCacheIsFull(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	installCRD(t, "plugins/podmanager/crd.yaml")
	ns, d := namespace(t), newDirectory(t)
	d.install("podmanager", podmanager(t, wasmbuild.TinyGo))
	p := thole(t, d, ns, "cacheDir: "+filepath.Join(disk, "cache"))
	p.ready("podmanager", 1)
	p.works(t, ns, "pm")
	const told = "compile cache cannot be written, compiling the plugin without it: make room, or give the right to write"
	if n := len(p.Log.With(told)); n != 1 {
		t.Errorf("told %d times", n)
	}
	p.stop()
	p.expectNoErrors()
}
