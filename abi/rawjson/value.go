package rawjson

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// Null consumes the next value if it is null, and reports whether it was.
func (r *Reader) Null() bool {
	r.space()
	return r.peek() == 'n' && r.err == nil && r.literal("null")
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

// String reads a string. The result aliases the input unless the string has
// escapes. A lone surrogate becomes U+FFFD, as in encoding/json, or fails if Strict.
func (r *Reader) String() string {
	r.space()
	var s string
	if r.fastString(&s) {
		return s
	}
	if r.err != nil || r.peek() != '"' {
		r.expect('"', "a string")
		return ""
	}
	return r.text()
}

// StringTo reads a string into into, as [Reader.String] does. A null leaves
// into unchanged, wherever it stands.
func (r *Reader) StringTo(into *string) {
	if r.fastString(into) || r.Null() {
		return
	}
	*into = r.String()
}

// fastString reads a string without escapes that begins at the next byte, and
// reports whether there was one.
func (r *Reader) fastString(into *string) bool {
	data, i := r.data, r.pos
	if i >= len(data) || data[i] != '"' || r.err != nil {
		return false
	}
	end := plainEnd(data, i+1)
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
	end, escaped := r.scanString()
	if escaped {
		return unescape(r.data[start:end])
	}
	return alias(r.data[start:end])
}

// alias returns bytes as a string without copying them; see the contract of
// [Reader].
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// unescape decodes the contents of a string that scanString has accepted.
func unescape(raw []byte) string {
	out := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		plain := plainEnd(raw, 0)
		out = append(out, raw[:plain]...)
		if raw = raw[plain:]; len(raw) == 0 {
			break
		}
		size := 2
		if raw[1] != 'u' {
			out = append(out, unescaped(raw[1]))
		} else {
			var c rune
			c, size = unescapeRune(raw)
			out = utf8.AppendRune(out, c)
		}
		raw = raw[size:]
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

// unescaped returns the character that is escaped by a backslash and c.
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

// hex4 returns the value of four hexadecimal digits.
func hex4(b []byte) rune {
	var c rune
	for _, d := range b[:4] {
		c = c<<4 | rune(hexDigit(d))
	}
	return c
}

// Int reads an integer of 64 bits that is written without fraction and
// exponent.
func (r *Reader) Int() int64 { return r.IntOf(64) }

// IntOf reads an integer of up to 64 bits that is written without fraction and
// exponent.
func (r *Reader) IntOf(bits int) int64 {
	r.space()
	if n, end := r.fastInt(); end > 0 && (bits >= 32 || n < 1<<(bits-1)) {
		r.pos = end
		return n
	}
	start, text := r.numberText("an integer")
	if text == "" {
		return 0
	}
	n, ok := parseInt(text)
	if limit := int64(1) << (bits - 1); bits < 64 && (n < -limit || n >= limit) {
		ok = false
	}
	if !ok {
		r.failNumber(start, "an integer", bits, text)
		return 0
	}
	return n
}

// fastInt looks for a natural number of up to nine digits, which has at most 32
// bits, and returns the offset behind it. end is 0 if there is something else.
func (r *Reader) fastInt() (n int64, end int) {
	end = r.pos
	for end < len(r.data) && isDigit(r.data[end]) {
		n = n*10 + int64(r.data[end]-'0')
		if end++; end-r.pos > 9 {
			return 0, 0
		}
	}
	leadingZero := end-r.pos > 1 && r.data[r.pos] == '0'
	if end == r.pos || end == len(r.data) || leadingZero || r.err != nil {
		return 0, 0
	}
	switch r.data[end] {
	case ',', '}', ']':
		return n, end
	default: // perhaps a fraction, an exponent or white space
		return 0, 0
	}
}

// parseInt parses a number in JSON's grammar. ok is false if it is not an
// integer of 64 bits. It is strconv.ParseInt at a fraction of its size, which
// every plugin would carry.
func parseInt(text string) (n int64, ok bool) {
	digits, negative := text, text[0] == '-'
	if negative {
		digits = text[1:]
	}
	var u uint64
	for i := range len(digits) {
		d := digits[i]
		// Above this limit another digit could exceed 64 bits.
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

// Uint reads a natural number or 0 of up to 64 bits that is written without
// sign, fraction and exponent.
func (r *Reader) Uint(bits int) uint64 {
	start, text := r.numberText("a natural number")
	n, err := strconv.ParseUint(text, 10, bits)
	if text != "" && err != nil {
		r.failNumber(start, "a natural number", bits, text)
		return 0
	}
	return n
}

// Float reads a number as the nearest one of 32 or 64 bits.
func (r *Reader) Float(bits int) float64 {
	start, text := r.numberText("a number")
	n, err := strconv.ParseFloat(text, bits)
	if text != "" && err != nil {
		r.failNumber(start, "a number", bits, text)
		return 0
	}
	return n
}

// numberText consumes a number and returns its text and offset, or "" if there
// is none.
func (r *Reader) numberText(what string) (start int, text string) {
	if r.Kind() != '0' || r.err != nil {
		r.expect('0', what)
		return 0, ""
	}
	start = r.pos
	if r.scanNumber(); r.err != nil {
		return 0, ""
	}
	return start, alias(r.data[start:r.pos])
}

// failNumber fails at the offset of a number that does not fit into bits.
func (r *Reader) failNumber(start int, what string, bits int, text string) {
	r.pos = start
	r.Fail("expected " + what + " of " + strconv.Itoa(bits) + " bits, found " + Truncate(text, maxQuoted))
}
