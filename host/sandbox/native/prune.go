package native

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// All that this package has in the directory starts with thole: what else
	// is there is somebody else's.
	storePrefix    = "thole-code-"
	stagingPattern = "thole-open-*"
	compilePattern = "thole-compile-*"
	privatePattern = "thole-private-*"
	// keepEntries is how long an entry is kept that no host has opened.
	keepEntries = 30 * 24 * time.Hour
	// keepLeftovers is how long the directories of processes are kept that
	// may have been killed. One that still runs makes its own again.
	keepLeftovers = 24 * time.Hour
	// defaultBytes is some 700 versions of a TinyGo plugin.
	defaultBytes = 1 << 30
)

// prune removes what nobody has used for long. A failure is none: the next
// start tries again.
func prune(dir string, now time.Time) {
	for pattern, keep := range map[string]time.Duration{
		filepath.Join(storePrefix+"*", "*"): keepEntries, // of every version of the engine
		stagingPattern:                      keepLeftovers,
		compilePattern:                      keepLeftovers,
		privatePattern:                      keepLeftovers,
	} {
		for _, e := range cached(dir, pattern) {
			if now.Sub(e.used) > keep {
				_ = os.RemoveAll(e.path)
			}
		}
	}
}

// trim removes the entries that were opened least lately until the others have
// at most so many bytes. Who runs code of one that goes has it open.
func trim(dir string, most uint64) {
	entries := cached(dir, filepath.Join(storePrefix+"*", "*"))
	slices.SortFunc(entries, func(a, b cachedFile) int { return b.used.Compare(a.used) })
	var total uint64
	for _, e := range entries {
		if total += e.size; total > most {
			_ = os.Remove(e.path)
		}
	}
}

// cachedFile is something in the cache's directory.
type cachedFile struct {
	path string
	size uint64
	used time.Time
}

func cached(dir, pattern string) (all []cachedFile) {
	paths, _ := filepath.Glob(filepath.Join(dir, pattern))
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil {
			all = append(all, cachedFile{path, uint64(info.Size()), info.ModTime()})
		}
	}
	return all
}
