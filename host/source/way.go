package source

import (
	"os"
	"path/filepath"
	"strings"
)

// way is how a path leads to a directory: what names it on the way there.
type way struct {
	end string // the directory by its real path; "" if it is not there
	// names are the entries of other directories on which the way depends:
	// each symbolic link, and the end. The first one that is missing is the
	// last of them.
	names map[string]bool
	// directories are those that tell of it: the end, and those of the names.
	directories map[string]bool
}

// maxLinks is as many as Linux follows.
const maxLinks = 40

// wayTo follows a clean absolute path as the kernel does.
func wayTo(path string) way {
	w := way{names: map[string]bool{}, directories: map[string]bool{}}
	w.follow(path)
	for name := range w.names {
		w.directories[filepath.Dir(name)] = true
	}
	if w.end != "" {
		w.directories[w.end] = true
	}
	return w
}

func (w *way) follow(path string) {
	root := filepath.VolumeName(path) + string(filepath.Separator)
	at, rest := root, components(path[len(root):])
	for links := 0; len(rest) > 0; {
		name := filepath.Join(at, rest[0]) // of a real path: .. is where it leads to
		rest = rest[1:]
		info, err := os.Lstat(name)
		if err != nil {
			w.names[name] = true
			return
		}
		if info.Mode()&os.ModeSymlink == 0 {
			at = name
			continue
		}
		w.names[name] = true
		target, err := os.Readlink(name)
		if links++; err != nil || links > maxLinks {
			return
		}
		if filepath.IsAbs(target) {
			at = root
		}
		rest = append(components(target), rest...)
	}
	w.names[at], w.end = true, at
}

func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}

// concerns says whether what happened at a path may be a change of the
// directory. In the others on the way much happens that is not.
func (w way) concerns(path string) bool {
	return w.names[path] || filepath.Dir(path) == w.end || w.directories[path]
}
