package rawjson

import (
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Skip consumes the next value after checking its syntax and depth.
func (r *Reader) Skip() {
	if r.Strict && r.skipStrict() {
		return
	}
	depth := len(r.path)
	limit := r.maxDepth()
	// closing holds the closing byte of each open array or object of the
	// skipped value, innermost last. There is no recursion, because the stack of
	// a guest is small.
	var buf [32]byte
	closing := buf[:0]
	for r.err == nil {
		r.space()
		switch c := r.peek(); c {
		case '{', '[':
			if depth+len(closing) >= limit {
				r.failTooDeep()
				return
			}
			r.pos++
			closing = append(closing, c+2) // '{'+2 is '}', '['+2 is ']'
			if r.space(); r.peek() == c+2 {
				break
			}
			if c == '{' {
				r.skipName()
			}
			continue
		case '"':
			r.scanString()
		case 't':
			r.literal("true")
		case 'f':
			r.literal("false")
		case 'n':
			r.literal("null")
		default:
			r.scanNumber()
		}
		if closing = r.nextSkipped(closing); len(closing) == 0 {
			return
		}
	}
}

// skipStrict skips an array or object member by member, which checks for
// duplicate names. It reports false for other values.
func (r *Reader) skipStrict() bool {
	switch r.Kind() {
	case '{':
		r.Object(func(string) {})
	case '[':
		r.Array(func(int) {})
	default:
		return false
	}
	return true
}

// nextSkipped moves from the end of a skipped value to the start of the next
// one in the open arrays and objects, and closes those that end before it.
func (r *Reader) nextSkipped(closing []byte) []byte {
	for r.err == nil && len(closing) > 0 {
		end := closing[len(closing)-1]
		r.space()
		switch r.peek() {
		case end:
			r.pos++
			closing = closing[:len(closing)-1]
		case ',':
			r.pos++
			r.space()
			if end == '}' {
				r.skipName()
			}
			return closing
		default:
			r.Expected("',' or " + quoteByte(end))
		}
	}
	return closing
}

// skipName consumes a member's name and the colon behind it.
func (r *Reader) skipName() {
	if r.peek() != '"' {
		r.Expected("a member name in quotes")
		return
	}
	if r.scanString(); r.peek() == ':' {
		r.pos++
		return
	}
	r.colon()
}

// scanNumber consumes a number in the grammar of RFC 8259, section 6.
func (r *Reader) scanNumber() {
	start := r.pos
	if r.peek() == '-' {
		r.pos++
	}
	switch {
	case r.peek() == '0':
		r.pos++
	case !r.digits():
		r.pos = start
		r.Expected("a value")
		return
	}
	if r.peek() == '.' {
		r.pos++
		if !r.digits() {
			r.Expected("a digit")
			return
		}
	}
	if c := r.peek(); c == 'e' || c == 'E' {
		r.pos++
		if c := r.peek(); c == '+' || c == '-' {
			r.pos++
		}
		if !r.digits() {
			r.Expected("a digit")
		}
	}
}

// digits consumes digits and reports whether there was one.
func (r *Reader) digits() bool {
	start := r.pos
	for r.pos < len(r.data) && isDigit(r.data[r.pos]) {
		r.pos++
	}
	return r.pos > start
}

// literal consumes true, false or null, whichever want is.
func (r *Reader) literal(want string) bool {
	end := r.pos + len(want)
	if end > len(r.data) || string(r.data[r.pos:end]) != want {
		r.Expected(want)
		return false
	}
	r.pos = end
	return true
}

// scanString consumes the string that begins at the next byte. It returns the
// offset of the closing quote, and whether the string has escapes. If it fails
// it returns the end of an empty string.
func (r *Reader) scanString() (end int, escaped bool) {
	start := r.pos + 1
	for i := plainEnd(r.data, start); i < len(r.data); i = plainEnd(r.data, i) {
		switch c := r.data[i]; c {
		case '"':
			r.pos = i + 1
			return i, escaped
		case '\\':
			escaped = true
			n := escapeLen(r.data[i:])
			if n == 0 {
				r.pos = i
				r.Fail("invalid escape in a string")
				return start, false
			}
			if r.Strict && n == 6 && utf16.IsSurrogate(hex4(r.data[i+2:])) {
				if n = surrogatePairLen(r.data[i:]); n == 0 {
					r.pos = i
					r.Fail("half of a surrogate pair in a string")
					return start, false
				}
			}
			i += n
		default:
			r.pos = i
			r.Fail("control character " + quoteByte(c) + " in a string")
			return start, false
		}
	}
	r.pos = len(r.data)
	r.Fail("the text ends inside a string")
	return start, false
}

// plainEnd returns the offset of the first byte from i on that does not stand
// for itself in a string: a quote, a backslash or a control character. Strings
// are most of a text, so it looks at eight bytes at once. A name often ends within the
// first eight, which are no round of the loop: in a guest each round has a check of fuel.
func plainEnd(data []byte, i int) int {
	rest := data[i:]
	if len(rest) >= 8 {
		if found := findSpecial(loadWord(rest)); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
		rest = rest[8:]
	}
	for len(rest) >= 8 {
		if found := findSpecial(loadWord(rest)); found != 0 {
			return len(data) - len(rest) + bits.TrailingZeros64(found)/8
		}
		rest = rest[8:]
	}
	for i = len(data) - len(rest); i < len(data); i++ {
		if c := data[i]; c < 0x20 || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// loadWord returns the first eight bytes as a number, the first byte lowest.
func loadWord(b []byte) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// everyByte times c is a word with c in each byte.
const everyByte = 0x0101010101010101

// findSpecial sets the highest bit of the first byte of a word that is a quote,
// a backslash or a control character, and returns 0 if there is none. The bits
// behind that byte have no meaning.
//
// It compares all bytes at once. Subtracting more from a byte than it is sets
// its highest bit, and borrows from the next byte, hence the meaningless bits;
// a byte whose highest bit was set before is left out by the mask. With its
// second bit flipped, what is less than 0x21 is a control character or a quote.
func findSpecial(word uint64) uint64 {
	low, backslash := word^0x02*everyByte, word^'\\'*everyByte
	return ((low-0x21*everyByte)&^low | (backslash-everyByte)&^backslash) & (0x80 * everyByte)
}

// escapeLen returns the length of the escape sequence at the start of b, or 0
// if there is no valid one.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if hexDigit(c) < 0 {
				return 0
			}
		}
		return 6
	}
	return 0
}

// surrogatePairLen returns the length of the surrogate pair at the start of b, which begins
// with an escaped surrogate, or 0 if it is half of one.
func surrogatePairLen(b []byte) int {
	const half = len(`\ud800`)
	if escapeLen(b[half:]) != half || utf16.DecodeRune(hex4(b[2:]), hex4(b[half+2:])) == utf8.RuneError {
		return 0
	}
	return 2 * half
}

// peek returns the next byte, or 0 at the end of the input. A 0 in the input is not valid
// JSON anywhere outside of a string, so that the two need not be distinguished.
func (r *Reader) peek() byte {
	if r.pos < len(r.data) {
		return r.data[r.pos]
	}
	return 0
}

// space skips white space, of which most texts have none.
func (r *Reader) space() {
	if r.pos < len(r.data) && r.data[r.pos] <= ' ' {
		r.skipSpace()
	}
}

func (r *Reader) skipSpace() {
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case ' ', '\n', '\t', '\r':
			r.pos++
		default:
			return
		}
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// hexDigit returns the value of a hexadecimal digit, or -1.
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
