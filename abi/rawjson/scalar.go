package rawjson

import (
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// Null consumes the next value if it is null, and says whether it was.
func (r *Reader) Null() bool {
	r.space()
	return r.peek() == 'n' && r.err == nil && r.literal("null")
}

// String reads a string; the result aliases the input if nothing in it is
// escaped. A lone surrogate becomes U+FFFD, as in encoding/json.
func (r *Reader) String() string {
	r.space()
	var s string
	if r.tightString(&s) {
		return s
	}
	if r.err != nil || r.peek() != '"' {
		r.expect('"', "a string")
		return ""
	}
	return r.text()
}

// StringTo reads a string, as [Reader.String] does. A null changes nothing,
// wherever it stands.
func (r *Reader) StringTo(into *string) {
	if r.tightString(into) || r.Null() {
		return
	}
	*into = r.String()
}

// tightString reads a string without escapes that begins at the next byte.
func (r *Reader) tightString(into *string) bool {
	data, i := r.data, r.pos
	if i >= len(data) || data[i] != '"' || r.err != nil {
		return false
	}
	end := ordinary(data, i+1)
	if end >= len(data) || data[end] != '"' {
		return false
	}
	*into = alias(data[i+1 : end])
	r.pos = end + 1
	return true
}

// text reads the string that begins at the next byte.
func (r *Reader) text() string {
	start := r.pos + 1
	end := r.scanString()
	if end < 0 {
		return unescape(r.data[start:^end])
	}
	return alias(r.data[start:end])
}

// Bool reads true or false.
func (r *Reader) Bool() bool {
	switch r.Kind() {
	case 't':
		return r.literal("true")
	case 'f':
		r.literal("false")
	default:
		r.expect('t', "true or false")
	}
	return false
}

// Int reads an integer of 64 bits that is written without fraction and
// exponent.
func (r *Reader) Int() int64 { return r.IntOf(64) }

// alias views bytes as a string without a copy; see the contract of Reader.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// unescape decodes the inside of a string literal that scanString accepted.
func unescape(raw []byte) string {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		switch {
		case raw[i] != '\\':
			out = append(out, raw[i])
			i++
		case raw[i+1] != 'u':
			out = append(out, unescaped(raw[i+1]))
			i += 2
		default:
			c, size := unescapeRune(raw[i:])
			out = utf8.AppendRune(out, c)
			i += size
		}
	}
	return alias(out)
}

// unescapeRune decodes \uXXXX, or two of them that form a surrogate pair.
func unescapeRune(raw []byte) (c rune, size int) {
	c = hex4(raw[2:])
	if !utf16.IsSurrogate(c) {
		return c, 6
	}
	if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		if pair := utf16.DecodeRune(c, hex4(raw[8:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default: // " \ /
		return c
	}
}

func hex4(b []byte) rune {
	var c rune
	for _, d := range b[:4] {
		c = c<<4 | rune(hexDigit(d))
	}
	return c
}

func hexDigit(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
