package rawjson

import (
	"math/bits"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// Writer appends one JSON text to a buffer. It places the commas. The caller
// must call the methods in a valid order: within an object each value follows a
// [Writer.Name].
type Writer struct {
	buf   []byte
	start int // the offset at which the text begins in buf
}

// NewWriter returns a writer that appends to buf.
func NewWriter(buf []byte) *Writer { return &Writer{buf: buf, start: len(buf)} }

// Bytes returns the buffer with everything that was written.
func (w *Writer) Bytes() []byte { return w.buf }

// Object writes an object whose members are written by members.
func (w *Writer) Object(members func()) {
	w.comma()
	w.buf = append(w.buf, '{')
	members()
	w.buf = append(w.buf, '}')
}

// Array writes an array whose elements are written by elements.
func (w *Writer) Array(elements func()) {
	w.comma()
	w.buf = append(w.buf, '[')
	elements()
	w.buf = append(w.buf, ']')
}

// Name writes a member's name.
func (w *Writer) Name(name string) *Writer {
	w.comma()
	w.buf = AppendString(w.buf, name)
	w.buf = append(w.buf, ':')
	return w
}

// String writes a string.
func (w *Writer) String(s string) {
	w.comma()
	w.buf = AppendString(w.buf, s)
}

// Int writes an integer.
func (w *Writer) Int(n int64) {
	w.comma()
	w.buf = strconv.AppendInt(w.buf, n, 10)
}

// Bool writes true or false.
func (w *Writer) Bool(b bool) {
	w.comma()
	w.buf = strconv.AppendBool(w.buf, b)
}

// Raw writes a value that is one JSON text already. Empty data is written as
// null.
func (w *Writer) Raw(value []byte) {
	w.comma()
	if len(value) == 0 {
		w.buf = append(w.buf, "null"...)
		return
	}
	w.buf = append(w.buf, value...)
}

// comma writes the separator that the next value or name needs. It looks at the
// last byte: no value ends with a byte after which there is no separator.
func (w *Writer) comma() {
	if n := len(w.buf); n > w.start {
		switch w.buf[n-1] {
		case '{', '[', ':', ',':
		default:
			w.buf = append(w.buf, ',')
		}
	}
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0 // of what is not appended yet
	for i := verbatimEnd(s, 0); i < len(s); i = verbatimEnd(s, i) {
		c := s[i]
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r != utf8.RuneError || size > 1 {
			i += size
			continue
		}
		dst = append(append(dst, s[start:i]...), "\uFFFD"...)
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// verbatimEnd returns the offset of the first byte from i on that must be
// escaped or is not ASCII.
func verbatimEnd(s string, i int) int {
	rest := unsafe.Slice(unsafe.StringData(s), len(s))[i:]
	for len(rest) >= 8 {
		w := loadWord(rest)
		if found := findSpecial(w) | w&(utf8.RuneSelf*everyByte); found != 0 {
			return len(s) - len(rest) + bits.TrailingZeros64(found)/8
		}
		rest = rest[8:]
	}
	for i = len(s) - len(rest); i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// appendEscape appends the escape sequence of a character below 0x80.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
	}
}
