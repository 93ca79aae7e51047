package sdk

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
)

// The types of this file and of quantity.go have methods for generated code and
// for encoding/json. Their DecodeJSON methods leave the value unchanged at a null.

// decodeWhole reads a text that is one value, for an UnmarshalJSON method.
func decodeWhole(v decoder, data []byte) error {
	r := rawjson.NewReader(data)
	v.DecodeJSON(r)
	return finish(r)
}

// Time is a time in the text form that Kubernetes objects have: RFC 3339, UTC,
// "" for none. Writing back a time that was read changes nothing.
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
