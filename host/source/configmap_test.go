package source

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// volume is a directory like a mounted ConfigMap: each file is a symbolic link
// into ..data, itself a link to a dated directory, and an update replaces
// ..data.
type volume struct {
	*testing.T
	dir string
}

func newVolume(t *testing.T) volume {
	t.Helper()
	return volume{t, t.TempDir()}
}

// update replaces all files by another version as the kubelet does. Files that
// this version does not have are unlinked afterwards.
func (v volume) update(version string, files map[string]string) {
	v.Helper()
	makeDirectory(v.T, filepath.Join(v.dir, version))
	for name, content := range files {
		write(v.T, v.dir, version+"/"+name, content)
	}
	before, err := os.Readlink(filepath.Join(v.dir, "..data"))
	if err != nil && !os.IsNotExist(err) {
		v.Fatal(err)
	}
	replaceByLink(v.T, version, filepath.Join(v.dir, "..data"))
	for name := range files {
		if err := os.Symlink("..data/"+name, filepath.Join(v.dir, name)); err != nil && !os.IsExist(err) {
			v.Fatal(err)
		}
	}
	listed, err := os.ReadDir(v.dir)
	if err != nil {
		v.Fatal(err)
	}
	for _, f := range listed {
		if _, kept := files[f.Name()]; !kept && !strings.HasPrefix(f.Name(), "..") {
			if err := os.Remove(filepath.Join(v.dir, f.Name())); err != nil {
				v.Fatal(err)
			}
		}
	}
	if before != "" {
		if err := os.RemoveAll(filepath.Join(v.dir, before)); err != nil {
			v.Fatal(err)
		}
	}
}

func TestUpdateOfAConfigMapVolumeIsYielded(t *testing.T) {
	v := newVolume(t)
	v.update("..1", map[string]string{"a.wasm": "1", "gone.wasm": "1"})
	snapshots := start(t, Config{Path: v.dir, Period: time.Hour})
	expectYield(t, snapshots, "a=1 gone=1")
	v.update("..2", map[string]string{"a.wasm": "2", "a.yaml": "policy"})
	expectYield(t, snapshots, "a=2")
	v.update("..3", map[string]string{"a.wasm": "2", "new.wasm": "3"})
	expectYield(t, snapshots, "a=2 new=3")
}

// TestModuleAndPolicyAreOfOneVersion swaps ..data at all moments of a scan.
func TestModuleAndPolicyAreOfOneVersion(t *testing.T) {
	dir := t.TempDir()
	const plugins = 50
	for _, version := range []string{"..1", "..2"} {
		makeDirectory(t, filepath.Join(dir, version))
		for i := range plugins {
			write(t, dir, fmt.Sprintf("%s/p%02d.wasm", version, i), version)
			write(t, dir, fmt.Sprintf("%s/p%02d.yaml", version, i), version)
		}
	}
	link(t, "..1", filepath.Join(dir, "..data"))
	for i := range plugins {
		for _, name := range []string{fmt.Sprintf("p%02d.wasm", i), fmt.Sprintf("p%02d.yaml", i)} {
			link(t, "..data/"+name, filepath.Join(dir, name))
		}
	}
	d, err := NewDirectory(Config{Path: dir, StableFor: time.Nanosecond, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	swap, swapped := make(chan int), make(chan struct{})
	go func() {
		defer close(swapped)
		for n := range swap {
			for range n % 17 * 100 {
				runtime.Gosched() // varies the moment of the swap
			}
			replaceByLink(t, fmt.Sprint("..", 1+n%2), filepath.Join(dir, "..data"))
			swapped <- struct{}{}
		}
	}()
	read := 0
	for n := range 300 {
		if _, _, err := d.scan(); err != nil { // takes stats, which are stable in the next scan
			t.Fatal(err)
		}
		swap <- n
		snapshot, _, err := d.scan()
		if err != nil {
			t.Fatal(err)
		}
		read += len(snapshot)
		for _, p := range snapshot {
			if p.Digest != digestOf(p.Policy) {
				t.Fatalf("%s has a module of digest %s and the policy of version %s", p.Name, p.Digest, p.Policy)
			}
		}
		<-swapped
	}
	close(swap)
	<-swapped
	if read == 0 {
		t.Error("no plugin was read beside a swap")
	}
	if _, _, err := d.scan(); err != nil {
		t.Fatal(err)
	}
	if s, _, err := d.scan(); err != nil || len(s) != plugins {
		t.Errorf("%d plugins, %v", len(s), err)
	}
}

// TestChangeBehindALinkIsFoundByThePeriodicScan covers a link to a file in a
// directory that is not watched.
func TestChangeBehindALinkIsFoundByThePeriodicScan(t *testing.T) {
	dir := t.TempDir()
	built := filepath.Join(dir, "built")
	makeDirectory(t, built)
	write(t, built, "out.bin", "1")
	link(t, "built/out.bin", filepath.Join(dir, "a.wasm"))
	snapshots := start(t, Config{Path: dir, Period: 10 * time.Millisecond})
	expectYield(t, snapshots, "a=1")
	write(t, built, "out.bin", "2")
	expectYield(t, snapshots, "a=2")
}
