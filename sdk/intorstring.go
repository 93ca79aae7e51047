package sdk

import (
	"errors"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
)

// IntOrString is a value that may be written as either, such as a port (8080
// or "http") or a share (1 or "25%"). The zero value is the number 0.
type IntOrString struct {
	text   string
	number int32
	isText bool
}

// FromInt returns a number.
func FromInt(n int32) IntOrString { return IntOrString{number: n} }

// FromString returns a string.
func FromString(s string) IntOrString { return IntOrString{text: s, isText: true} }

// Int returns the number; ok is false if it is a string.
func (v IntOrString) Int() (n int32, ok bool) { return v.number, !v.isText }

// String returns the string, or the number in digits.
func (v IntOrString) String() string {
	if v.isText {
		return v.text
	}
	return strconv.Itoa(int(v.number))
}

// Of returns the number, or the percentage that the string names of total,
// rounded up or down.
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

// DecodeJSON reads either; a null changes nothing.
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

// AppendJSON appends the value as what it is.
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

// decodeWhole reads a text that is one value, for encoding/json.
func decodeWhole(v decoder, data []byte) error {
	r := rawjson.NewReader(data)
	v.DecodeJSON(r)
	return told(r)
}
