package rawjson

import "math/bits"

// Skip consumes the next value after checking its syntax and depth.
func (r *Reader) Skip() {
	if r.Strict && r.skipStrict() {
		return
	}
	depth := len(r.path)
	limit := r.maxDepth()
	// closing holds what each open array or object of the skipped value ends
	// with, innermost last: no recursion, for a guest's stack is small.
	var buf [32]byte
	closing := buf[:0]
	for r.err == nil {
		r.space()
		switch c := r.peek(); c {
		case '{', '[':
			if depth+len(closing) >= limit {
				r.tooDeep()
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
			r.number()
		}
		if closing = r.after(closing); len(closing) == 0 {
			return
		}
	}
}

// skipStrict skips an array or object and checks the names in it. Member by
// member, each value that is not looked at is skipped in the same way.
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

// after steps from the end of a value to the start of the next one inside of
// the open arrays and objects, closing those that end here.
func (r *Reader) after(closing []byte) []byte {
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

// number consumes a number in the grammar of RFC 8259, section 6.
func (r *Reader) number() {
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

func (r *Reader) digits() bool {
	start := r.pos
	for r.pos < len(r.data) && isDigit(r.data[r.pos]) {
		r.pos++
	}
	return r.pos > start
}

func (r *Reader) literal(want string) bool {
	end := r.pos + len(want)
	if end > len(r.data) || string(r.data[r.pos:end]) != want {
		r.Expected(want)
		return false
	}
	r.pos = end
	return true
}

// skipName consumes a member's name and the colon behind it.
func (r *Reader) skipName() {
	if r.peek() != '"' {
		r.name() // says what is wrong
		return
	}
	start := r.pos
	if r.scanString(); r.peek() == ':' {
		r.pos++
		return
	}
	if r.err == nil {
		r.pos = start
		r.name()
	}
}

// scanString consumes the string literal that begins at the next byte, and
// returns the offset of its closing quote, inverted if anything in it is
// escaped. When it fails it returns that of an empty literal.
func (r *Reader) scanString() int {
	end := ordinary(r.data, r.pos+1)
	if end < len(r.data) && r.data[end] == '"' {
		r.pos = end + 1
		return end
	}
	return r.scanSpecial(end)
}

// scanSpecial is scanString from the first byte on that is not plain.
func (r *Reader) scanSpecial(i int) int {
	start, escaped := r.pos+1, false
	for ; i < len(r.data); i = ordinary(r.data, i) {
		switch c := r.data[i]; c {
		case '"':
			r.pos = i + 1
			if escaped {
				return ^i
			}
			return i
		case '\\':
			escaped = true
			n := escapeLen(r.data[i:])
			if n == 0 {
				r.pos = i
				r.Fail("invalid escape in a string")
				return start
			}
			i += n
		default:
			r.pos = i
			r.Fail("control character " + quoteByte(c) + " in a string")
			return start
		}
	}
	r.pos = len(r.data)
	r.Fail("the text ends inside a string")
	return start
}

// ordinary returns the offset of the next byte from i on that does not stand for
// itself in a string literal: a quote, a backslash or a control character. It
// looks at eight bytes at once, most of a text being strings.
func ordinary(data []byte, i int) int {
	rest := data[i:]
	for len(rest) >= 8 {
		if found := special(word(rest)); found != 0 {
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

// word is the first eight bytes, the first one lowest.
func word(b []byte) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// each is a word with 1 in each byte.
const each = 0x0101010101010101

// special sets the highest bit of the first byte that is special, if there is
// one. What it sets behind that byte means nothing: a byte less than what is
// subtracted from it has its highest bit set then, unless it had before, and
// borrows from the next one.
//
// With their second bit turned, control characters and the quote are what is
// less than 0x21.
func special(word uint64) uint64 {
	low, backslash := word^0x02*each, word^'\\'*each
	return ((low-0x21*each)&^low | (backslash-each)&^backslash) & (0x80 * each)
}

// escapeLen returns the length of the escape sequence at the start of b, 0 if
// it is none.
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
