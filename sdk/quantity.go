package sdk

import (
	"cmp"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
)

// Quantity is an amount in the notation of Kubernetes: "500m", "1.5", "2Gi",
// "1e3". It is the text that the API server sent, so that writing back a quantity
// that was read changes nothing; only a number becomes a string. "" counts as 0.
// Decoding rejects a text that is not a quantity.
//
// As in Kubernetes, an amount is at most 2^63-1 and has nine decimals, rounded
// away from 0. The first 18 significant digits of the text are used.
type Quantity string

// Value returns the amount as an integer, rounded away from 0.
func (q Quantity) Value() int64 { return q.in(1) }

// MilliValue returns a thousand times the amount as an integer, rounded away
// from 0; it is at most 2^63-1.
func (q Quantity) MilliValue() int64 { return q.in(1000) }

// in returns the amount in units of which one has perUnit.
func (q Quantity) in(perUnit uint64) int64 {
	a, _ := parseQuantity(string(q))
	n := int64(math.MaxInt64)
	if high, low := bits.Mul64(a.whole, perUnit); high == 0 && low <= math.MaxInt64 {
		n = int64(min(low+(a.nano*perUnit+nanos-1)/nanos, math.MaxInt64))
	}
	if a.negative {
		return -n
	}
	return n
}

// Cmp compares two amounts: it returns -1 if q is less than other, 0 if they are
// equal, and 1 if q is more.
func (q Quantity) Cmp(other Quantity) int {
	a, _ := parseQuantity(string(q))
	b, _ := parseQuantity(string(other))
	switch {
	case a.negative && b.negative:
		a, b = b, a
	case a.negative || b.negative:
		return cmp.Compare(a.sign(), b.sign())
	}
	return cmp.Or(cmp.Compare(a.whole, b.whole), cmp.Compare(a.nano, b.nano))
}

// DecodeJSON reads a quantity, which may be a number.
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

// nanos is the number of billionths of 1.
const nanos = 1_000_000_000

// amount is the value of a quantity: whole, which is at most 2^63-1, and billionths.
type amount struct {
	whole, nano uint64
	negative    bool
}

// sign returns -1, 0 or 1. Negative zero is zero.
func (a amount) sign() int {
	switch {
	case a.whole == 0 && a.nano == 0:
		return 0
	case a.negative:
		return -1
	default:
		return 1
	}
}

// parseQuantity parses the text of a quantity. ok is false if it is malformed.
func parseQuantity(text string) (a amount, ok bool) {
	negative := strings.HasPrefix(text, "-")
	if negative || strings.HasPrefix(text, "+") {
		text = text[1:]
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
	a = scaled(mantissa, binary, decimals+decimal)
	a.negative = negative
	return a, true
}

// parseDecimal parses digits with at most one point. The value is mantissa *
// 10^exponent, and mantissa is less than 10^18.
func parseDecimal(text string) (mantissa uint64, exponent int, ok bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	if whole+fraction == "" || strings.Contains(fraction, ".") {
		return 0, 0, false
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent = -len(fraction)
	if trimmed := strings.TrimRight(digits, "0"); len(trimmed) < len(digits) {
		exponent += len(digits) - len(trimmed)
		digits = trimmed
	}
	if len(digits) > 18 {
		exponent += len(digits) - 18
		digits = digits[:18]
	}
	for _, d := range digits {
		mantissa = mantissa*10 + uint64(d-'0')
	}
	return mantissa, exponent, true
}

// parseSuffix returns the exponents of two and of ten that a suffix stands for.
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

// scaled returns mantissa * 2^binary * 10^decimal for a mantissa below 2^60 and a binary
// of at most 60. It is rounded up to billionths, and at most 2^63-1.
func scaled(mantissa uint64, binary, decimal int) amount {
	high, low := bits.Mul64(mantissa, 1<<binary)
	for ; decimal < -9 && (high != 0 || low > 1); decimal++ {
		high, low = divideUp(high, low, 10)
	}
	divisor := uint64(1)
	for range min(-decimal, 9) {
		divisor *= 10
	}
	if high >= divisor {
		return amount{whole: math.MaxInt64}
	}
	whole, rest := bits.Div64(high, low, divisor)
	for ; decimal > 0 && 0 < whole && whole <= math.MaxInt64/10; decimal-- {
		whole *= 10
	}
	if decimal > 0 && whole > 0 || whole > math.MaxInt64 {
		return amount{whole: math.MaxInt64}
	}
	return amount{whole: whole, nano: rest * (nanos / divisor)}
}

// divideUp returns a number of 128 bits divided by n, rounded up.
func divideUp(high, low, n uint64) (uint64, uint64) {
	quotient, rest := bits.Div64(high%n, low, n)
	quotient, carry := bits.Add64(quotient, min(rest, 1), 0)
	return high/n + carry, quotient
}
