package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The plugin runs, and the log names the directory. The test needs the right to
// mount a file system.
func TestPluginRunsWhenTheDiskOfTheCompileCacheIsFull(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	ns, dir := namespace(t), filepath.Join(disk, "cache")
	p := startPodmanager(t, ns, "cacheDir: "+dir)
	expectServed(t, ns, "pm")
	if warnings := p.Log.Since(0).With("@level", "warn", "dir", dir); len(warnings) != 1 ||
		!strings.Contains(warnings[0].String("error"), syscall.ENOSPC.Error()) {
		t.Errorf("one full disk is logged as %v", warnings)
	}
	if problem := p.Plugin("podmanager").CacheProblem; !strings.Contains(problem, syscall.ENOSPC.Error()) {
		t.Errorf("/plugins has the problem %q", problem)
	}
	if n := p.Metrics().Sum("thole_compile_cache_failing"); n != 1 {
		t.Errorf("thole_compile_cache_failing is %v", n)
	}
	p.stop()
	p.expectNoErrors()
}
