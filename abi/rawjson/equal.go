package rawjson

import (
	"bytes"
	"math"
)

// Equal says whether two texts hold the same value: white space, the order of
// members and the notation of strings and numbers do not count. Texts that are
// not JSON, or hold a name twice in one object, equal only themselves.
func Equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	ta, err := parse(a)
	if err != nil {
		return false
	}
	tb, err := parse(b)
	return err == nil && equal(ta, 0, tb, 0)
}

func equal(a *tree, i int, b *tree, j int) bool {
	kind := a.kind(i)
	if kind != b.kind(j) {
		return false
	}
	switch kind {
	case '{':
		return equalObjects(a, i, b, j)
	case '[':
		return equalArrays(a, i, b, j)
	case '"':
		return equalStrings(a.raw(i), b.raw(j))
	case '0':
		return equalNumbers(a.raw(i), b.raw(j))
	default: // true, false, null
		return true
	}
}

func equalObjects(a *tree, i int, b *tree, j int) bool {
	if a.countChildren(i) != b.countChildren(j) {
		return false
	}
	var inB index
	next := j + 1 // the same order is the common case
	return a.children(i, func(member int) bool {
		name, other := a.nodes[member].name, next
		if b.nodes[other].name != name {
			if inB.t == nil {
				inB = b.index(j)
			}
			other = inB.find(name)
		}
		if next = int(b.nodes[next].next); next >= int(b.nodes[j].next) {
			next = j + 1 // behind the last one; any member will do
		}
		return other >= 0 && equal(a, member, b, other)
	})
}

func equalArrays(a *tree, i int, b *tree, j int) bool {
	next, end := j+1, int(b.nodes[j].next)
	same := a.children(i, func(element int) bool {
		if next >= end || !equal(a, element, b, next) {
			return false
		}
		next = int(b.nodes[next].next)
		return true
	})
	return same && next == end
}

func equalStrings(a, b []byte) bool {
	return bytes.Equal(a, b) || NewReader(a).String() == NewReader(b).String()
}

// equalNumbers compares by value: the API server writes 1.0 back as 1.
func equalNumbers(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, ok := parseDecimal(a)
	if !ok {
		return false
	}
	y, ok := parseDecimal(b)
	return ok && x == y
}

// decimal is 0.digits * 10^exponent, with digits neither starting nor ending
// with a zero: each number has exactly one.
type decimal struct {
	negative bool
	digits   string
	exponent int64
}

// parseDecimal reads a number of JSON's grammar. ok is false where its
// exponent is beyond all use.
func parseDecimal(text []byte) (d decimal, ok bool) {
	mantissa, exponent, _ := cutAny(text, "eE")
	if d.negative = mantissa[0] == '-'; d.negative {
		mantissa = mantissa[1:]
	}
	whole, fraction, _ := cutAny(mantissa, ".")
	digits := append(append(make([]byte, 0, len(mantissa)), whole...), fraction...)
	d.exponent = int64(len(whole))
	if len(exponent) > 0 {
		e, ok := parseInt(alias(bytes.TrimPrefix(exponent, []byte("+"))))
		if !ok || e > math.MaxInt32 || e < math.MinInt32 {
			return d, false
		}
		d.exponent += e
	}
	trimmed := bytes.TrimLeft(digits, "0")
	d.exponent -= int64(len(digits) - len(trimmed))
	if d.digits = alias(bytes.TrimRight(trimmed, "0")); d.digits == "" {
		return decimal{}, true // 0, -0 and 0e5 are one
	}
	return d, true
}

func cutAny(text []byte, chars string) (before, after []byte, found bool) {
	if i := bytes.IndexAny(text, chars); i >= 0 {
		return text[:i], text[i+1:], true
	}
	return text, nil, false
}
