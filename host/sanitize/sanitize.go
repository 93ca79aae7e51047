// Package sanitize makes text that the host did not write safe to show. Names
// of files, messages of guests and of the API server reach terminals, logs,
// metrics and conditions; none of them may contain control sequences, break a
// line, or grow without bound.
package sanitize

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi/rawjson"
)

// Line returns s as one line of printable text: each rune that cannot be
// printed, such as a line feed, an escape or a change of direction, becomes a
// space. The result is valid UTF-8 and can be the value of a metric's label.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

// Lines is [Line] for a text of several lines, such as the output of a compiler:
// line feeds and tabs stay.
func Lines(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return ' '
	}, s)
}

// LogBytes returns how many bytes s takes at most as a value in a log, where bytes
// may be escaped.
func LogBytes[T string | []byte](s T) (n int) {
	const escaped = len(`\u0000`)
	for i := range len(s) {
		if c := s[i]; c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
			n++
		} else {
			n += escaped
		}
	}
	return n
}

// Truncate returns s as valid UTF-8 of at most limit bytes, as
// [rawjson.Truncate] does. Each run of bytes that are not UTF-8 becomes U+FFFD.
func Truncate(s string, limit int) string {
	return rawjson.Truncate(strings.ToValidUTF8(s, "\uFFFD"), limit)
}

// TruncateMiddle is [Truncate], but leaves out what is before the last quarter: texts of the API
// server and of webhooks often end with the reason.
func TruncateMiddle(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	end := len(s) - max(limit, 0)/4
	for end < len(s) && !utf8.RuneStart(s[end]) {
		end++
	}
	return rawjson.Truncate(s, limit-(len(s)-end)) + s[end:]
}
