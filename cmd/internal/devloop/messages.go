package devloop

import (
	"path/filepath"
	"regexp"
	"strings"
)

// place is a file and a line at the beginning of a compiler's line.
var place = regexp.MustCompile(`(?m)^([^\s:#][^:\n]*):(\d+)(:\d+)?:`)

// relocate rewrites the places in a compiler's text, which are relative to
// dir, so that they are what somebody in cwd would type.
func relocate(text, dir, cwd string) string {
	return place.ReplaceAllStringFunc(text, func(found string) string {
		file, rest, _ := strings.Cut(found, ":")
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		return typed(file, cwd) + ":" + rest
	})
}

// typed is a path as somebody in cwd would type it: relative, unless that
// takes a longer way than from the root.
func typed(path, cwd string) string {
	rel, err := filepath.Rel(cwd, path)
	if err != nil || len(rel) > len(path) {
		return path
	}
	return rel
}

// only says whether every place in a compiler's text is in the file of that
// base name, and there is one.
func only(text, base string) bool {
	places := place.FindAllStringSubmatch(text, -1)
	for _, p := range places {
		if filepath.Base(p[1]) != base {
			return false
		}
	}
	return len(places) > 0
}
