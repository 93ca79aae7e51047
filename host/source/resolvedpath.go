package source

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// resolvedPath is how a path leads to a directory, through symbolic links.
type resolvedPath struct {
	// target is the directory without symbolic links in its path; "" if it is
	// not there.
	target string
	// entries are the paths on which the resolution depends: each symbolic
	// link, and the target. If something is missing, the last entry is that.
	entries map[string]bool
	// directories are the target and the directories of the entries: to watch
	// them is to notice every change of the resolution. The value is nil if
	// there is no such directory.
	directories map[string]os.FileInfo
}

// maxLinks is how many symbolic links Linux follows in one path.
const maxLinks = 40

// resolvePath resolves a clean absolute path as the kernel does.
func resolvePath(path string) resolvedPath {
	r := resolvedPath{entries: map[string]bool{}, directories: map[string]os.FileInfo{}}
	r.follow(path)
	for entry := range r.entries {
		r.add(filepath.Dir(entry))
	}
	if r.target != "" {
		r.add(r.target)
	}
	return r
}

func (r *resolvedPath) follow(path string) {
	root := filepath.VolumeName(path) + string(filepath.Separator)
	at, rest := root, components(path[len(root):])
	for links := 0; len(rest) > 0; {
		entry := filepath.Join(at, rest[0]) // at has no links, so that .. leads to its parent
		rest = rest[1:]
		info, err := os.Lstat(entry)
		if err != nil {
			r.entries[entry] = true
			return
		}
		if info.Mode()&os.ModeSymlink == 0 {
			at = entry
			continue
		}
		r.entries[entry] = true
		target, err := os.Readlink(entry)
		if links++; err != nil || links > maxLinks {
			return
		}
		if filepath.IsAbs(target) {
			at = root
		}
		rest = append(components(target), rest...)
	}
	r.entries[at], r.target = true, at
}

func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}

func (r *resolvedPath) add(directory string) {
	info, err := os.Stat(directory)
	if err != nil {
		info = nil
	}
	r.directories[directory] = info
}

// equal reports whether two resolutions depend on the same entries and lead
// through the same directories, not only through directories of the same name.
func (r resolvedPath) equal(other resolvedPath) bool {
	return maps.Equal(r.entries, other.entries) && maps.EqualFunc(r.directories, other.directories, func(a, b os.FileInfo) bool {
		return a != nil && b != nil && os.SameFile(a, b)
	})
}

// concerns reports whether an event at a path may be a change of the target or
// of the resolution. Other entries of the watched directories do not matter.
func (r resolvedPath) concerns(path string) bool {
	_, watched := r.directories[path]
	return watched || r.entries[path] || filepath.Dir(path) == r.target
}
