// Package timers is what hosts and guests share of the capability by which objects run at times of their own.
// SPEC.md specifies it.
package timers

import (
	"cmp"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/message"
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
func Encode(all []Timer) []byte { return message.EncodeArray(all, (*Timer).fields) }

// Decode decodes and checks the section of a controller. Every error is a [*rawjson.Error].
func Decode(section []byte) ([]Timer, error) {
	all, err := message.DecodeArray(section, Max, (*Timer).fields)
	if err != nil {
		return nil, err
	}
	err = cmp.Or(
		message.CheckEach("", all, Timer.check),
		message.CheckDistinct("", "name", all, func(t Timer) string { return t.Name }),
	)
	return all, err
}

func (t *Timer) fields(f *message.Fields) {
	f.Required("name", &t.Name)
	f.Duration("interval", &t.Interval)
	f.Duration("initialDelay", &t.InitialDelay)
	f.Duration("idle", &t.Idle)
	f.Bool("sharp", &t.Sharp)
}

func (t Timer) check() error {
	switch {
	case !abi.ValidName(t.Name):
		return rawjson.NewError("name", rawjson.Quote(t.Name)+" is not a DNS label (at most 63 lower case letters, digits and '-')")
	case t.Interval == 0:
		return rawjson.NewError("interval", "is required: the time between two runs")
	}
	return nil
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
