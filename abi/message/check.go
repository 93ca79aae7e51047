package message

import (
	"strconv"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
)

// The checks return errors of the same type as the reader, so that every error
// of a decoder is a [*rawjson.Error]. They have no offsets, because the text has
// been read already.

// CheckLength returns an error if a text is longer than limit bytes.
func CheckLength(path string, length, limit int) error {
	if length <= limit {
		return nil
	}
	return rawjson.NewError(path, strconv.Itoa(length)+" bytes, the limit is "+strconv.Itoa(limit))
}

// CheckEach returns the first error of check for the entries of a list.
func CheckEach[T any](field string, list []T, check func(T) error) error {
	for i, v := range list {
		if err := check(v); err != nil {
			return rawjson.Within(field+"["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}

// CheckDistinct returns an error for the first entry whose name an earlier
// entry has; field is the member of the entry that holds the name.
func CheckDistinct[T any](list, field string, entries []T, name func(T) string) error {
	seen := make(map[string]bool, len(entries))
	return CheckEach(list, entries, func(entry T) error {
		n := name(entry)
		if seen[n] {
			return rawjson.Within(field, rawjson.NewError("", rawjson.Quote(n)+" is given twice"))
		}
		seen[n] = true
		return nil
	})
}

// ConsistsOf reports whether s is not empty and has only letters, digits and
// the given other characters.
func ConsistsOf(s, others string) bool {
	for i := range len(s) {
		if !alphanumeric(s[i]) && strings.IndexByte(others, s[i]) < 0 {
			return false
		}
	}
	return s != ""
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
