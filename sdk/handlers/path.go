package handlers

import (
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/internal/content"
)

// parsePath returns the names of a path such as spec.replicas.
func parsePath(path string) (names []string, ok bool) {
	names = strings.Split(path, ".")
	for _, name := range names {
		if !isWord(name) {
			return nil, false
		}
	}
	return names, true
}

// notChanging returns why a value at a path never counts as changed, "" if it does.
func notChanging(path []string) string {
	switch path[0] {
	case "apiVersion", "kind":
		return "never changes"
	case "metadata":
		if len(path) == 1 || path[1] != "labels" && path[1] != "annotations" {
			return "has no changes: of the metadata only labels and annotations count"
		}
	}
	return ""
}

// isName reports whether s can be the name of a handler.
func isName(s string) bool { return len(s) <= 63 && isWord(s) }

// isWord reports whether s is one or more letters, digits, '-' and '_'.
func isWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}

// valueAt returns the value at a path of an object, nil if there is none, or a null.
func valueAt(object []byte, path []string) []byte {
	value, _ := rawjson.Lookup(object, path...)
	return content.NonNull(value)
}
