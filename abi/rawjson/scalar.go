package rawjson

import (
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// Null consumes the next value if it is null, and says whether it was.
func (r *Reader) Null() bool {
	r.space()
	return r.err == nil && r.peek() == 'n' && r.literal("null")
}

// String reads a string; the result aliases the input if nothing in it is
// escaped. A lone surrogate becomes U+FFFD, as in encoding/json.
func (r *Reader) String() string {
	if !r.expect('"', "a string") {
		return ""
	}
	raw, escaped, ok := r.scanString()
	switch {
	case !ok:
		return ""
	case escaped:
		return unescape(raw)
	default:
		return alias(raw)
	}
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

// Int reads an integer that is written without fraction and exponent.
func (r *Reader) Int() int64 {
	if r.Kind() != '0' {
		r.expect('0', "an integer")
		return 0
	}
	start := r.pos
	if r.number(); r.err != nil {
		return 0
	}
	text := alias(r.data[start:r.pos])
	n, ok := parseInt(text)
	if !ok {
		r.pos = start
		r.Fail("expected an integer of 64 bits, found " + shorten(text))
	}
	return n
}

// parseInt reads a number of JSON's grammar if it is an integer of 64 bits.
func parseInt(text string) (n int64, ok bool) {
	digits, negative := text, text[0] == '-'
	if negative {
		digits = text[1:]
	}
	var u uint64
	for i := range len(digits) {
		d := digits[i]
		// Up to 10 times this there is room for one more digit in 64 bits.
		if !isDigit(d) || u > (1<<63)/10 {
			return 0, false
		}
		u = u*10 + uint64(d-'0')
	}
	if negative {
		return -int64(u), u <= 1<<63
	}
	return int64(u), u < 1<<63
}

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
