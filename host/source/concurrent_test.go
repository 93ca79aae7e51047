package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/internal/await"
)

const rounds = 50

// version returns the content of a file in one round. The last one is the
// smallest.
func version(round int) string {
	return strings.Repeat("a line of a module;", 1+(rounds-1-round)*100) + "end"
}

// TestConcurrentWritersEndAsWritten runs a directory while several goroutines
// replace files as fast as they can. A file that is only ever renamed into
// place is complete in every snapshot, and the last snapshot holds what was
// written last, in place or by a rename.
func TestConcurrentWritersEndAsWritten(t *testing.T) {
	dir := t.TempDir()
	d, err := NewDirectory(Config{Path: dir, StableFor: time.Millisecond, Period: time.Hour, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	snapshots := run(t, d)
	var writers sync.WaitGroup
	for i := range 4 {
		for kind, replace := range map[string]func(path, content string) error{"renamed": replaceByRename, "copied": replaceInPlace} {
			writers.Go(func() {
				for round := range rounds {
					if err := replace(filepath.Join(dir, fmt.Sprintf("%s%d.wasm", kind, i)), version(round)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	complete := map[string]bool{}
	for round := range rounds {
		complete[digestOf([]byte(version(round)))] = true
	}
	await.Until(t, "a snapshot of what was written last", func() bool {
		last := 0
		for _, p := range next(t, snapshots) {
			if strings.HasPrefix(p.Name, "renamed") && !complete[p.Digest] {
				t.Errorf("%s was never complete with digest %q: %v", p.Name, p.Digest, p.Err)
			}
			if p.Digest == digestOf([]byte(version(rounds-1))) {
				last++
			}
		}
		return last == 8
	})
	writers.Wait()
}

// replaceByRename is [write], with a temporary name of its own for each file.
func replaceByRename(path, content string) error {
	next := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	return errors.Join(os.WriteFile(next, []byte(content), 0o600), os.Rename(next, path))
}

// replaceInPlace writes in several pieces, as cp does.
func replaceInPlace(path, content string) error {
	file, err := os.Create(path)
	for err == nil && content != "" {
		n := min(len(content), 4096)
		_, err = file.WriteString(content[:n])
		content = content[n:]
	}
	return errors.Join(err, file.Close())
}
