package sdk

import (
	"time"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk/codec"
)

// Duration is a time as Kubernetes writes it and Go reads it: "90s", "1h30m".
type Duration struct{ time.Duration }

// DurationOf returns d.
func DurationOf(d time.Duration) Duration { return Duration{d} }

// DecodeJSON reads a duration; a null changes nothing.
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

// MicroTime is a [Time] with six digits behind the second, as leases and
// events have it; "" for none.
type MicroTime string

// MicroTimeOf returns t in whole microseconds; "" for the zero time.
func MicroTimeOf(t time.Time) MicroTime {
	if t.IsZero() {
		return ""
	}
	return MicroTime(t.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
}

// Time returns the time, zero if there is none or it cannot be read.
func (t MicroTime) Time() time.Time { return Time(t).Time() }
