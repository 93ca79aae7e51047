// Package timers is what hosts and guests share of the capability by which objects run at times of their own.
// SPEC.md specifies it.
package timers

import (
	"strconv"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Name is the name of the capability: of its section in a controller of a manifest, and in a request.
const Name = "timers"

// Max is how many timers a controller may have.
const Max = 64

// Check checks the section of a controller, see [abi.Manifest.CheckSections].
func Check(_ *abi.Controller, section []byte) error {
	_, err := Decode(section)
	return err
}

// maxDuration keeps every duration within [time.Duration], in ms.
const maxDuration = int64(100 * 365 * 24 * time.Hour / time.Millisecond)

// Timer is a schedule of each object of a controller.
type Timer struct {
	Name         string // a DNS label, distinct within the controller
	Interval     int64  // ms; less than 100 counts as 100
	InitialDelay int64  // ms from the creation of the object to the first time
	Idle         int64  // ms that the spec, labels and annotations must not have changed; 0 for no condition
	// Sharp keeps the times on a grid from the creation of the object. Otherwise Interval
	// begins at the end of a run, and the host adds jitter.
	Sharp bool
}

// Encode returns the section of a controller with these timers.
func Encode(all []Timer) []byte {
	w := &rawjson.Writer{}
	w.Array(func() {
		for _, t := range all {
			w.Object(func() { t.encode(w) })
		}
	})
	return w.Bytes()
}

func (t Timer) encode(w *rawjson.Writer) {
	w.Name("name").String(t.Name)
	for _, d := range []struct {
		name string
		ms   int64
	}{{"interval", t.Interval}, {"initialDelay", t.InitialDelay}, {"idle", t.Idle}} {
		if d.ms != 0 {
			w.Name(d.name).Int(d.ms)
		}
	}
	if t.Sharp {
		w.Name("sharp").Bool(true)
	}
}

// Decode decodes and checks the section of a controller. Every error is a [*rawjson.Error].
func Decode(section []byte) (all []Timer, err error) {
	r := rawjson.NewReader(section)
	r.Strict = true
	r.Array(func(i int) {
		if i == Max {
			r.Fail("more than " + strconv.Itoa(Max) + " entries")
			return
		}
		all = append(all, Timer{})
		t := &all[i]
		r.Object(func(name string) { t.decode(r, name) })
	})
	if err := r.End(); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for i, t := range all {
		at := "[" + strconv.Itoa(i) + "]"
		switch {
		case !abi.ValidName(t.Name):
			return nil, rawjson.NewError(at+".name", rawjson.Quote(t.Name)+" is not a DNS label (at most 63 lower case letters, digits and '-')")
		case names[t.Name]:
			return nil, rawjson.NewError(at+".name", rawjson.Quote(t.Name)+" is given twice")
		case t.Interval == 0:
			return nil, rawjson.NewError(at+".interval", "is required: the time between two runs")
		}
		names[t.Name] = true
	}
	return all, nil
}

func (t *Timer) decode(r *rawjson.Reader, name string) {
	switch name {
	case "name":
		t.Name = r.String()
	case "interval":
		t.Interval = duration(r)
	case "initialDelay":
		t.InitialDelay = duration(r)
	case "idle":
		t.Idle = duration(r)
	case "sharp":
		t.Sharp = r.Bool()
	default:
		r.Unknown(name, "name", "interval", "initialDelay", "idle", "sharp")
	}
}

// duration reads a number of milliseconds.
func duration(r *rawjson.Reader) int64 {
	ms := r.Int()
	switch {
	case ms < 0:
		r.Fail("must not be negative, is " + strconv.FormatInt(ms, 10))
	case ms > maxDuration:
		r.Fail("must be at most 100 years, is " + strconv.FormatInt(ms, 10))
	}
	return ms
}

// EncodeDue returns the section of a request: the names of the timers that are due.
func EncodeDue(names []string) []byte {
	w := &rawjson.Writer{}
	w.Array(func() {
		for _, name := range names {
			w.String(name)
		}
	})
	return w.Bytes()
}

// DecodeDue decodes the section of a request, nil for none.
func DecodeDue(section []byte) (names []string, err error) {
	if section == nil {
		return nil, nil
	}
	r := rawjson.NewReader(section)
	r.Array(func(int) { names = append(names, r.String()) })
	return names, r.End()
}
