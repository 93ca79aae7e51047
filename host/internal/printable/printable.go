// Package printable keeps what others say from steering who reads it.
package printable

import (
	"strings"
	"unicode"
)

// Line returns a text of a guest or of an object as one line without anything
// that a terminal or a format of log lines would act on: a space for each rune
// that cannot be printed.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}
