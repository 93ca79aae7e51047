package native

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for path, age := range map[string]time.Duration{
		storePrefix + "old-engine/unused":   keepEntries + time.Hour,
		storePrefix + "this-engine/unused":  keepEntries + time.Hour,
		storePrefix + "this-engine/used":    keepEntries - time.Hour,
		"thole-open-123/wazero/left":        keepLeftovers + time.Hour,
		"thole-compile-123/code/wazero/new": time.Minute,
		"somebody/elses":                    10 * keepEntries,
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for p := path; p != dir; p = filepath.Dir(p) {
			if err := os.Chtimes(p, now.Add(-age), now.Add(-age)); err != nil {
				t.Fatal(err)
			}
		}
	}
	prune(dir, now)
	var left []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(dir, path)
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(left, " "), "somebody/elses thole-code-this-engine/used thole-compile-123/code/wazero/new"; got != want {
		t.Errorf("left: %s\nwant: %s", got, want)
	}
}

// TestTheCacheIsBounded: what was used least lately goes, and what runs from
// it goes on.
func TestTheCacheIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	s := open(t, Config{Dir: dir, Bytes: 1})
	first, second := compile(t, s, "first", 1), compile(t, s, "second", 2)
	if left := cached(dir, filepath.Join(storePrefix+"*", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	wantRun(t, first, 1)
	wantRun(t, second, 2)

	now := time.Now()
	entries := filepath.Join(dir, storePrefix+"engine")
	if err := os.MkdirAll(entries, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"newest", "newer", "older", "oldest"} {
		path := filepath.Join(entries, name)
		if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		used := now.Add(-time.Duration(i) * time.Hour)
		if err := os.Chtimes(path, used, used); err != nil {
			t.Fatal(err)
		}
	}
	trim(dir, 250)
	var left []string
	for _, e := range cached(dir, filepath.Join(storePrefix+"*", "*")) {
		left = append(left, filepath.Base(e.path))
	}
	if got := strings.Join(left, " "); got != "newer newest" {
		t.Errorf("left: %s", got)
	}
}
