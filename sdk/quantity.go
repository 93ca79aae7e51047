package sdk

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
)

// Quantity is an amount as Kubernetes writes it: "500m", "1.5", "2Gi", "1e3".
// It is the text of the API server, so that writing back what was read changes
// nothing but a number's quotes; "" is none, and counts as 0. Decoding refuses
// what is no quantity.
//
// As in Kubernetes an amount is at most 2^63-1 and has nine digits behind the
// point, rounded away from 0. Of the text, 18 digits count.
type Quantity string

// Value returns the amount as an integer, rounded away from 0.
func (q Quantity) Value() int64 { return q.in(1e9) }

// MilliValue returns a thousand times the amount as an integer, rounded away
// from 0; it is at most 2^63-1.
func (q Quantity) MilliValue() int64 { return q.in(1e6) }

// Cmp compares two amounts: -1 if q is less than other, 0 if they are equal, 1
// if q is more.
func (q Quantity) Cmp(other Quantity) int {
	a, _ := parseQuantity(string(q))
	b, _ := parseQuantity(string(other))
	return a.cmp(b)
}

// in returns the amount in units of so many billionths.
func (q Quantity) in(unit uint64) int64 {
	a, _ := parseQuantity(string(q))
	value := a.nano.dividedBy(unit)
	n := int64(math.MaxInt64)
	if value.high == 0 && value.low < math.MaxInt64 {
		n = int64(value.low)
	}
	if a.negative {
		return -n
	}
	return n
}

// DecodeJSON reads a quantity, which may be a number; a null changes nothing.
func (q *Quantity) DecodeJSON(r *Reader) {
	var text string
	switch {
	case r.Null():
		return
	case r.Kind() == '0':
		text = string(r.Raw())
	case r.Kind() == '"':
		text = r.String()
	default:
		r.Expected("a quantity such as 500m or 2Gi")
		return
	}
	if _, ok := parseQuantity(text); !ok && text != "" {
		r.Fail("expected a quantity such as 500m or 2Gi, found " + rawjson.Quote(text))
		return
	}
	*q = Quantity(text)
}

// AppendJSON appends the quantity in quotes.
func (q Quantity) AppendJSON(dst []byte) ([]byte, error) {
	return codec.AppendString(dst, string(q)), nil
}

// UnmarshalJSON is for encoding/json.
func (q *Quantity) UnmarshalJSON(data []byte) error { return decodeWhole(q, data) }

// MarshalJSON is for encoding/json.
func (q Quantity) MarshalJSON() ([]byte, error) { return q.AppendJSON(nil) }

// amount is what a quantity says, in billionths.
type amount struct {
	nano     uint128
	negative bool
}

func (a amount) cmp(b amount) int {
	switch {
	case a.nano == b.nano && (a.negative == b.negative || a.nano == uint128{}):
		return 0
	case a.negative != b.negative:
		if a.negative {
			return -1
		}
		return 1
	case a.nano.less(b.nano) != a.negative:
		return -1
	default:
		return 1
	}
}

// parseQuantity reads the text of a quantity.
func parseQuantity(text string) (a amount, ok bool) {
	if text != "" && (text[0] == '-' || text[0] == '+') {
		a.negative, text = text[0] == '-', text[1:]
	}
	digits := len(text) - len(strings.TrimLeft(text, "0123456789."))
	mantissa, decimals, ok := parseDecimal(text[:digits])
	if !ok {
		return amount{}, false
	}
	binary, decimal, ok := parseSuffix(text[digits:])
	if !ok {
		return amount{}, false
	}
	a.nano = mantissa.shifted(binary).times10(9 + decimal + decimals)
	if limit := (uint128{low: math.MaxInt64}).times10(9); limit.less(a.nano) {
		a.nano = limit
	}
	return a, true
}

// parseDecimal reads digits with at most one point. The number is mantissa
// times ten to the power of exponent.
func parseDecimal(text string) (mantissa uint128, exponent int, ok bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	if whole+fraction == "" || strings.Contains(fraction, ".") {
		return mantissa, 0, false
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent = -len(fraction)
	if cut := strings.TrimRight(digits, "0"); len(cut) < len(digits) {
		exponent += len(digits) - len(cut)
		digits = cut
	}
	if len(digits) > 18 {
		exponent += len(digits) - 18
		digits = digits[:18]
	}
	for _, d := range digits {
		mantissa.low = mantissa.low*10 + uint64(d-'0')
	}
	return mantissa, exponent, true
}

// parseSuffix returns the powers of two and of ten that a suffix stands for.
func parseSuffix(suffix string) (binary, decimal int, ok bool) {
	const units = "num kMGTPE"
	switch {
	case suffix == "":
		return 0, 0, true
	case len(suffix) == 1 && suffix != " ":
		i := strings.Index(units, suffix)
		return 0, 3*i - 9, i >= 0
	case len(suffix) == 2 && suffix[1] == 'i':
		i := strings.Index("KMGTPE", suffix[:1])
		return 10 * (i + 1), 0, i >= 0
	case suffix[0] == 'e' || suffix[0] == 'E':
		n, err := strconv.ParseInt(suffix[1:], 10, 16)
		return 0, int(n), err == nil
	default:
		return 0, 0, false
	}
}

// uint128 saturates: what is more is the largest.
type uint128 struct{ high, low uint64 }

var largest = uint128{math.MaxUint64, math.MaxUint64}

func (u uint128) less(v uint128) bool {
	return u.high < v.high || u.high == v.high && u.low < v.low
}

// shifted returns a number below 2^64 times two to the power of n, at most 60.
func (u uint128) shifted(n int) uint128 {
	return uint128{u.low >> (64 - n), u.low << n}
}

// times10 returns u times ten to the power of n, rounded up.
func (u uint128) times10(n int) uint128 {
	for ; n > 0 && u != largest && u != (uint128{}); n-- {
		u = u.times(10)
	}
	for ; n < 0 && u != (uint128{0, 1}) && u != (uint128{}); n++ {
		u = u.dividedBy(10)
	}
	return u
}

func (u uint128) times(n uint64) uint128 {
	over, high := bits.Mul64(u.high, n)
	carry, low := bits.Mul64(u.low, n)
	high, more := bits.Add64(high, carry, 0)
	if over != 0 || more != 0 {
		return largest
	}
	return uint128{high, low}
}

// dividedBy returns u divided by n, rounded up.
func (u uint128) dividedBy(n uint64) uint128 {
	high, rest := u.high/n, u.high%n
	low, rest := bits.Div64(rest, u.low, n)
	if rest == 0 {
		return uint128{high, low}
	}
	low, carry := bits.Add64(low, 1, 0)
	return uint128{high + carry, low}
}
