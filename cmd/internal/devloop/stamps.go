package devloop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk/generate"
)

// stamp is what a file looks like. Its zero value is that of one that is not
// there.
type stamp struct {
	size    int64
	modTime time.Time
	mode    os.FileMode
}

// stamps are files by their paths.
type stamps map[string]stamp

// look reads the stamps of all that counts.
func (s sources) look() stamps {
	out := stamps{}
	for dir, of := range s.folders {
		entries, _ := os.ReadDir(dir) // gone: it has no files, which is a change
		for _, e := range entries {
			if counts(e.Name(), of.everything) {
				out.add(filepath.Join(dir, e.Name()))
			}
		}
	}
	for _, path := range s.files {
		out.add(path)
	}
	return out
}

func (s stamps) add(path string) {
	info, err := os.Stat(path)
	if err != nil {
		return
	}
	if filepath.Base(path) == generate.FileName {
		s[path] = stamp{size: 1} // we write it: only that it is there counts
		return
	}
	if info.IsDir() {
		s[path] = stamp{mode: info.Mode()} // what is in it is looked at by itself
		return
	}
	s[path] = stamp{info.Size(), info.ModTime(), info.Mode()}
}

// counts says whether a file of a package's directory goes into the build.
func counts(name string, everything bool) bool {
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasSuffix(name, "_test.go") {
		return false
	}
	switch filepath.Ext(name) {
	case ".go", ".s", ".S", ".c", ".h":
		return true
	}
	return everything
}

// since lists the files that are not as they were, and when the last one of
// them was written, as far as it is known.
func (s stamps) since(before stamps) (changed []string, last time.Time) {
	for path, now := range s {
		if was, known := before[path]; !known || !was.modTime.Equal(now.modTime) || was.size != now.size || was.mode != now.mode {
			changed = append(changed, path)
			if now.modTime.After(last) {
				last = now.modTime
			}
		}
	}
	for path := range before {
		if _, there := s[path]; !there {
			changed = append(changed, path)
		}
	}
	slices.Sort(changed)
	return changed, last
}
