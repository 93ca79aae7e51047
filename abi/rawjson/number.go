package rawjson

import "strconv"

// IntOf reads an integer of up to 64 bits that is written without fraction
// and exponent.
func (r *Reader) IntOf(bits int) int64 {
	r.space()
	if n, end := r.short(); end > 0 && (bits >= 32 || n < 1<<(bits-1)) {
		r.pos = end
		return n
	}
	start, text := r.numeral("an integer")
	if text == "" {
		return 0
	}
	n, ok := parseInt(text)
	if limit := int64(1) << (bits - 1); bits < 64 && (n < -limit || n >= limit) {
		ok = false
	}
	if !ok {
		r.misfit(start, "an integer of "+strconv.Itoa(bits)+" bits", text)
		return 0
	}
	return n
}

// short looks at a natural number of up to nine digits, as most integers are,
// and returns where it ends; 0 if there is something else. 32 bits hold it.
func (r *Reader) short() (n int64, end int) {
	end = r.pos
	for end < len(r.data) && isDigit(r.data[end]) {
		n = n*10 + int64(r.data[end]-'0')
		if end++; end-r.pos > 9 {
			return 0, 0
		}
	}
	zero := end-r.pos > 1 && r.data[r.pos] == '0'
	if end == r.pos || end == len(r.data) || zero || r.err != nil {
		return 0, 0
	}
	switch r.data[end] {
	case ',', '}', ']':
		return n, end
	default: // it may go on
		return 0, 0
	}
}

// Uint reads a natural number of up to 64 bits, and zero, that is written
// without sign, fraction and exponent.
func (r *Reader) Uint(bits int) uint64 {
	start, text := r.numeral("a natural number")
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		r.misfit(start, "a natural number of "+strconv.Itoa(bits)+" bits", text)
		return 0
	}
	return n
}

// Float reads a number as the nearest of 32 or 64 bits.
func (r *Reader) Float(bits int) float64 {
	start, text := r.numeral("a number")
	if text == "" {
		return 0
	}
	f, err := strconv.ParseFloat(text, bits)
	if err != nil {
		r.misfit(start, "a number of "+strconv.Itoa(bits)+" bits", text)
		return 0
	}
	return f
}

// numeral reads the text of a number and where it starts; "" if there is none.
func (r *Reader) numeral(what string) (start int, text string) {
	if r.Kind() != '0' {
		r.expect('0', what)
		return 0, ""
	}
	if r.err != nil {
		return 0, ""
	}
	start = r.pos
	if r.number(); r.err != nil {
		return 0, ""
	}
	return start, alias(r.data[start:r.pos])
}

// misfit fails at a number that is not what was expected.
func (r *Reader) misfit(start int, what, text string) {
	r.pos = start
	r.Fail("expected " + what + ", found " + shorten(text))
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
