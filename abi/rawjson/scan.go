package rawjson

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
				r.name()
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
				r.name()
			}
			return closing
		default:
			r.expected("',' or " + quoteByte(end))
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
		r.expected("a value")
		return
	}
	if r.peek() == '.' {
		r.pos++
		if !r.digits() {
			r.expected("a digit")
			return
		}
	}
	if c := r.peek(); c == 'e' || c == 'E' {
		r.pos++
		if c := r.peek(); c == '+' || c == '-' {
			r.pos++
		}
		if !r.digits() {
			r.expected("a digit")
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
		r.expected(want)
		return false
	}
	r.pos = end
	return true
}

// special are the bytes that do not stand for themselves in a string literal.
var special = func() (table [256]bool) {
	for c := range 0x20 {
		table[c] = true
	}
	table['"'], table['\\'] = true, true
	return table
}()

// scanString consumes a string literal and returns what is between the
// quotes, and whether any of it is escaped.
func (r *Reader) scanString() (raw []byte, escaped, ok bool) {
	start := r.pos + 1
	for i := start; i < len(r.data); {
		switch c := r.data[i]; {
		case !special[c]:
			i++
		case c == '"':
			r.pos = i + 1
			return r.data[start:i], escaped, true
		case c == '\\':
			escaped = true
			n := escapeLen(r.data[i:])
			if n == 0 {
				r.pos = i
				r.Fail("invalid escape in a string")
				return nil, false, false
			}
			i += n
		default:
			r.pos = i
			r.Fail("control character " + quoteByte(c) + " in a string")
			return nil, false, false
		}
	}
	r.pos = len(r.data)
	r.Fail("the text ends inside a string")
	return nil, false, false
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
