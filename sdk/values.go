package sdk

import (
	"cmp"
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
)

// The types of this file have methods for generated code and for encoding/json. Their
// DecodeJSON methods leave the value unchanged at a null.

// decodeWhole reads a text that is one value, for an UnmarshalJSON method.
func decodeWhole(v decoder, data []byte) error {
	r := rawjson.NewReader(data)
	v.DecodeJSON(r)
	return finish(r)
}

// Time is a time in the text form that Kubernetes objects have: RFC 3339, UTC,
// "" for none. Writing back a time that was read changes nothing.
//
//	type Time string
//
//	func (t Time) Time() time.Time // returns the parsed time
type Time = abi.Time

// TimeOf returns t truncated to seconds, and "" for the zero time.
func TimeOf(t time.Time) Time { return abi.TimeOf(t) }

// MicroTime is a [Time] with six decimals of a second, as in leases and events.
type MicroTime string

// MicroTimeOf returns t truncated to microseconds, and "" for the zero time.
func MicroTimeOf(t time.Time) MicroTime {
	if t.IsZero() {
		return ""
	}
	return MicroTime(t.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
}

// Time returns the parsed time. It is zero if t is empty or malformed.
func (t MicroTime) Time() time.Time { return Time(t).Time() }

// Duration is a duration in the notation of Kubernetes and Go: "90s", "1h30m".
type Duration struct{ time.Duration }

// DurationOf returns d as a Duration.
func DurationOf(d time.Duration) Duration { return Duration{d} }

// DecodeJSON reads a duration.
func (d *Duration) DecodeJSON(r *Reader) {
	if r.Null() {
		return
	}
	if r.Kind() != '"' {
		r.Expected(`a duration in quotes such as "90s"`)
		return
	}
	text := r.String()
	parsed, err := time.ParseDuration(text)
	if err != nil {
		r.Fail("expected a duration such as 90s or 1h30m, found " + rawjson.Quote(text))
		return
	}
	d.Duration = parsed
}

// AppendJSON appends the duration in quotes.
func (d Duration) AppendJSON(dst []byte) ([]byte, error) {
	return codec.AppendString(dst, d.Duration.String()), nil
}

// UnmarshalJSON is for encoding/json.
func (d *Duration) UnmarshalJSON(data []byte) error { return decodeWhole(d, data) }

// MarshalJSON is for encoding/json.
func (d Duration) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil) }

// IntOrString is a value that is an integer or a string, such as a port (8080 or
// "http") or a share (1 or "25%"). The zero value is the integer 0.
type IntOrString struct {
	text   string
	number int32
	isText bool
}

// FromInt returns an integer.
func FromInt(n int32) IntOrString { return IntOrString{number: n} }

// FromString returns a string.
func FromString(s string) IntOrString { return IntOrString{text: s, isText: true} }

// Int returns the integer. ok is false if the value is a string.
func (v IntOrString) Int() (n int32, ok bool) { return v.number, !v.isText }

// String returns the string, or the integer in decimal notation.
func (v IntOrString) String() string {
	if v.isText {
		return v.text
	}
	return strconv.Itoa(int(v.number))
}

// Of returns the integer, or, for a percentage, that share of total, rounded up
// or down.
func (v IntOrString) Of(total int, up bool) (int, error) {
	if !v.isText {
		return int(v.number), nil
	}
	digits, isPercent := strings.CutSuffix(v.text, "%")
	percent, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || !isPercent {
		return 0, errors.New("expected an integer or a percentage such as 25%, found " + rawjson.Quote(v.text))
	}
	scaled := percent * int64(total)
	n := scaled / 100
	if up && scaled%100 > 0 {
		n++
	}
	if !up && scaled%100 < 0 {
		n--
	}
	return int(n), nil
}

// DecodeJSON reads an integer or a string.
func (v *IntOrString) DecodeJSON(r *Reader) {
	switch {
	case r.Null():
	case r.Kind() == '"':
		*v = FromString(r.String())
	case r.Kind() == '0':
		*v = FromInt(int32(r.IntOf(32)))
	default:
		r.Expected("an integer or a string")
	}
}

// AppendJSON appends the integer, or the string in quotes.
func (v IntOrString) AppendJSON(dst []byte) ([]byte, error) {
	if v.isText {
		return codec.AppendString(dst, v.text), nil
	}
	return codec.AppendInt(dst, int64(v.number)), nil
}

// UnmarshalJSON is for encoding/json.
func (v *IntOrString) UnmarshalJSON(data []byte) error { return decodeWhole(v, data) }

// MarshalJSON is for encoding/json.
func (v IntOrString) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil) }

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
	if high, low := divideUp(a.high, a.low, nanos/perUnit); high == 0 && low <= math.MaxInt64 {
		n = int64(low)
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
	case a.negative:
		return -1
	case b.negative:
		return 1
	}
	return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.low, b.low))
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

// amount is the value of a quantity in billionths, as a number of 128 bits that is at most
// maxHigh and maxLow. Zero is not negative.
type amount struct {
	high, low uint64
	negative  bool
}

// The largest amount is 2^63-1.
const (
	maxHigh = math.MaxInt64 * nanos >> 64
	maxLow  = math.MaxInt64 * nanos & math.MaxUint64
)

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
	a.high, a.low = scaled(mantissa, binary, decimals+decimal+9)
	a.negative = negative && a != amount{}
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
// of at most 60. It is rounded up, and at most the largest amount.
func scaled(mantissa uint64, binary, decimal int) (high, low uint64) {
	high, low = bits.Mul64(mantissa, 1<<binary)
	for ; decimal < 0 && (high != 0 || low > 1); decimal++ {
		high, low = divideUp(high, low, 10)
	}
	for ; decimal > 0 && high|low != 0 && high <= maxHigh; decimal-- {
		carry, product := bits.Mul64(low, 10)
		high, low = high*10+carry, product
	}
	if high > maxHigh || high == maxHigh && low > maxLow {
		return maxHigh, maxLow
	}
	return high, low
}

// divideUp returns a number of 128 bits divided by n, rounded up.
func divideUp(high, low, n uint64) (uint64, uint64) {
	quotient, rest := bits.Div64(high%n, low, n)
	quotient, carry := bits.Add64(quotient, min(rest, 1), 0)
	return high/n + carry, quotient
}
