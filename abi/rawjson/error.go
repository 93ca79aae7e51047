package rawjson

import (
	"strconv"
	"strings"
)

// Error is why a text could not be read. Its length is bounded, whatever the
// text holds.
type Error struct {
	Path    string // such as "controllers[1].for.kind"; "" at the top
	Offset  int    // byte offset in the input; negative if the path says it all
	Message string
}

func (e *Error) Error() string {
	text := e.Message
	if e.Path != "" {
		text = e.Path + ": " + text
	}
	if e.Offset >= 0 {
		text += " (offset " + strconv.Itoa(e.Offset) + ")"
	}
	return text
}

func (r *Reader) failAt(message string, path []step) {
	if r.err == nil {
		r.err = &Error{Path: renderPath(path), Offset: r.pos, Message: message}
	}
}

// Expected makes the reader fail because what comes next is not what the
// caller wants, such as "an integer or a string".
func (r *Reader) Expected(what string) {
	if r.pos >= len(r.data) {
		r.Fail("the text ends where " + what + " is expected")
		return
	}
	r.Fail("expected " + what + ", found " + r.found())
}

// found names what starts at the present position.
func (r *Reader) found() string {
	switch c := r.peek(); {
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '"':
		return "a string"
	case c == '-' || isDigit(c):
		return "a number"
	default:
		return r.foundWord(c)
	}
}

func (r *Reader) foundWord(c byte) string {
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(alias(r.data[r.pos:]), word) {
			return word
		}
	}
	return quoteByte(c)
}

// maxSteps is how much of a path an error repeats, in steps.
const maxSteps = 32

func renderPath(path []step) string {
	var out []byte
	for i, s := range path {
		if skipped := len(path) - maxSteps; i == maxSteps/2 && skipped > 0 {
			out = append(append(out, "..."...), renderPath(path[i+skipped:])...)
			break
		}
		out = appendStep(out, s)
	}
	return string(out)
}

func appendStep(out []byte, s step) []byte {
	switch {
	case s.index == between:
		return out
	case s.index >= 0:
		return append(strconv.AppendInt(append(out, '['), int64(s.index), 10), ']')
	case !plain(s.name):
		return append(append(append(out, '['), Quote(s.name)...), ']')
	case len(out) > 0:
		out = append(out, '.')
	}
	return append(out, shorten(s.name)...)
}

// plain says whether a name can stand in a path without quotes.
func plain(name string) bool {
	for i := range len(name) {
		if c := lower(name[i]); !isDigit(c) && (c < 'a' || c > 'z') && c != '_' && c != '-' {
			return false
		}
	}
	return name != ""
}

// Quote returns the start of a text that somebody else wrote, up to 64 bytes,
// as a JSON string: fit for an error message.
func Quote(s string) string { return string(AppendString(nil, shorten(s))) }

func quoteByte(c byte) string {
	if ' ' <= c && c <= '~' {
		return "'" + string(rune(c)) + "'"
	}
	return "byte 0x" + string([]byte{hexDigits[c>>4], hexDigits[c&0xf]})
}

// maxQuoted is how much of a name an error repeats, in bytes.
const maxQuoted = 64

func shorten(name string) string {
	if len(name) <= maxQuoted {
		return name
	}
	return strings.ToValidUTF8(name[:maxQuoted], "") + "..."
}

// Nearest returns the known name that is closest to name, if one is close
// enough to be what was meant.
func Nearest(name string, known []string) (string, bool) {
	if len(name) > maxQuoted {
		return "", false
	}
	best, bestDistance := "", max(2, len(name)/3+1)
	for _, k := range known {
		if d := distance(name, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best, best != ""
}

// distance is the Levenshtein distance of a and b without regard to ASCII
// case.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if lower(a[i]) == lower(b[j]) {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
