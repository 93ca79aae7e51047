package rawjson

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Error is the reason why a text could not be read, or why a value has no JSON
// form. What a [Reader] reports has a bounded length, whatever the text contains.
type Error struct {
	Path    string // such as "controllers[1].for.kind"; "" for the value as a whole
	Offset  int    // in bytes; negative if there is none
	Message string
}

// NewError returns an error without an offset.
func NewError(path, message string) *Error {
	return &Error{Path: path, Offset: -1, Message: message}
}

// ErrorOf returns err without its offset. The text of an error that is not an
// [*Error] becomes the message.
func ErrorOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return NewError(e.Path, e.Message)
	}
	return NewError("", err.Error())
}

// Within returns err for the value around it: path leads from there to the
// value that err is about. It returns nil if err is nil.
func Within(path string, err error) error {
	if err == nil {
		return nil
	}
	inner := ErrorOf(err)
	inner.Path = joinPath(path, inner.Path)
	return inner
}

// joinPath returns the path of a value at path inner within the value at path outer.
func joinPath(outer, inner string) string {
	if outer == "" || inner == "" || inner[0] == '[' {
		return outer + inner
	}
	return outer + "." + inner
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

// Fail makes the reader fail at the current path. Only the first failure is
// kept.
func (r *Reader) Fail(message string) { r.failWithPath(message, r.path) }

// FailAt is [Reader.Fail] for a value at a path below the current one, such as
// "ports[1].name"; "" is the current path.
func (r *Reader) FailAt(path, message string) {
	if r.err == nil {
		r.Fail(message)
		r.err.Path = joinPath(r.err.Path, path)
	}
}

func (r *Reader) failWithPath(message string, path []step) {
	if r.err == nil {
		r.err = &Error{Path: renderPath(path), Offset: r.pos, Message: message}
	}
}

// Unknown reports that the caller does not know the current member. A strict
// reader fails and names the most similar one of the known names.
func (r *Reader) Unknown(name string, known ...string) {
	if r.Strict {
		message := "unknown field " + Quote(name) + DidYouMean(name, known)
		// The last step of the path is the unknown member itself.
		r.failWithPath(message, r.path[:max(len(r.path)-1, 0)])
	}
}

// Expected makes the reader fail because the next value is not what the caller
// expects, such as "an integer or a string".
func (r *Reader) Expected(what string) {
	if r.pos >= len(r.data) {
		r.Fail("the text ends where " + what + " is expected")
		return
	}
	r.Fail("expected " + what + ", found " + r.found())
}

// End checks that nothing follows the text and returns the first error.
func (r *Reader) End() error {
	r.space()
	if r.err == nil && r.pos < len(r.data) {
		r.Fail("unexpected " + r.found() + " after the value")
	}
	return r.Err()
}

// Err returns the first error, which is an [*Error].
func (r *Reader) Err() error {
	if r.err == nil {
		return nil
	}
	return r.err
}

// found describes the value at the current position.
func (r *Reader) found() string {
	c := r.peek()
	switch kindOf(c) {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	}
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(alias(r.data[r.pos:]), word) {
			return word
		}
	}
	return quoteByte(c)
}

// maxSteps is the number of steps of a path that an error repeats.
const maxSteps = 32

// renderPath returns the text of a path. A long one is cut in the middle.
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

// appendStep appends a step in the notation of the path of an [Error]: a name that is not
// an identifier is in brackets and quotes, as in metadata.labels["example.com/a"].
func appendStep(out []byte, s step) []byte {
	switch {
	case s.index == between:
		return out
	case s.index >= 0:
		return append(strconv.AppendInt(append(out, '['), int64(s.index), 10), ']')
	case !isIdentifier(s.name):
		return append(append(append(out, '['), Quote(s.name)...), ']')
	case len(out) > 0:
		out = append(out, '.')
	}
	return append(out, Truncate(s.name, maxQuoted)...)
}

// isIdentifier reports whether a name can be part of a path without quotes.
func isIdentifier(name string) bool {
	for i := range len(name) {
		if c := lower(name[i]); !isDigit(c) && (c < 'a' || c > 'z') && c != '_' && c != '-' {
			return false
		}
	}
	return name != ""
}

// maxQuoted is the number of bytes of a name or value that an error repeats.
const maxQuoted = 64

// Quote returns a text of unknown origin as a JSON string for an error message.
// A long text is truncated.
func Quote(s string) string { return string(AppendString(nil, Truncate(s, maxQuoted))) }

// Truncate returns s, or its beginning followed by "..." if s is longer than
// limit bytes. The result has at most limit bytes and does not end within a
// character. It is "" if the limit leaves no room for the dots.
func Truncate(s string, limit int) string {
	const dots = "..."
	switch {
	case len(s) <= limit:
		return s
	case limit < len(dots):
		return ""
	}
	end := limit - len(dots)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + dots
}

// quoteByte returns a byte in a form that can be printed.
func quoteByte(c byte) string {
	if ' ' <= c && c <= '~' {
		return "'" + string(rune(c)) + "'"
	}
	return "byte 0x" + string([]byte{hexDigits[c>>4], hexDigits[c&0xf]})
}

// DidYouMean returns `, did you mean "x"?` with the known name x that is most
// similar to name, or "" if none is similar.
func DidYouMean(name string, known []string) string {
	if near, ok := Nearest(name, known); ok {
		return ", did you mean " + Quote(near) + "?"
	}
	return ""
}

// Nearest returns the known name that is most similar to name. ok is false if
// none is similar enough for name to be a misspelling of it.
func Nearest(name string, known []string) (near string, ok bool) {
	if len(name) > maxQuoted {
		return "", false
	}
	nearest := max(2, len(name)/3+1)
	for _, k := range known {
		if d := distance(name, k); d < nearest {
			near, nearest = k, d
		}
	}
	if near != "" || strings.Contains(name, ".") {
		return near, near != ""
	}
	const least = 4 // bytes of a beginning that stands for a name
	for _, k := range known {
		// Such as memory for memoryMiB, and timeoutSeconds for timeout.
		n := min(len(name), len(k))
		if n >= least && distance(name[:n], k[:n]) == 0 && (n == len(name) || lower(name[n]) != name[n]) {
			return k, true
		}
	}
	return "", false
}

// distance returns the Levenshtein distance of a and b, ignoring ASCII case.
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
