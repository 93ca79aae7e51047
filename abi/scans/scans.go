// Package scans is what hosts and guests share of the capability by which a function of a controller finds the
// objects to run. SPEC.md specifies it.
package scans

import (
	"bytes"
	"cmp"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Name is the name of the capability: of its section in a controller of a manifest.
const Name = "scans"

// Export is the function of a guest that makes scans.
const Export = "scan" // (len i32) -> i32; required by a section

// Limits of a scan.
const (
	Max        = 16     // of a controller
	MaxObjects = 10_000 // that one scan returns
)

// Scan is a function of a controller that runs at an interval, once for all objects and all
// replicas of the host, and finds the objects to run.
type Scan struct {
	Name     string // a DNS label, distinct within the controller
	Interval int64  // ms from the end of a scan to the next one; less than 1000 counts as 1000
}

// Request is the input of one scan.
type Request struct {
	Controller string    // the name of the controller
	Scan       string    // the name of the scan
	Now        time.Time // UTC: the time that every clock of the guest starts from
	Seed       [32]byte  // random, different for each scan; not suitable for secrets
	Config     []byte    // JSON: the administrator's configuration of the plugin; nil if there is none
}

// Result is the message that a scan writes.
type Result struct {
	Objects []Object     // to run; of one that is named twice every signal counts
	Error   *abi.Failure // with a code other than [abi.CodeOK]
}

// Object is a primary that a scan makes due.
type Object struct {
	Namespace string // "" for a cluster-scoped one
	Name      string
	Signal    []byte // JSON of up to [abi.MaxSignal] bytes for the request of the object; nil for none
}

// Encode returns the section of a controller with these scans.
func Encode(all []Scan) []byte { return message.EncodeArray(all, (*Scan).fields) }

// Check checks the section of a controller, see [abi.Manifest.CheckSections].
func Check(_ *abi.Controller, section []byte) error {
	_, err := Decode(section)
	return err
}

// Decode decodes and checks the section of a controller. Every error is a [*rawjson.Error].
func Decode(section []byte) ([]Scan, error) {
	all, err := message.DecodeArray(section, Max, (*Scan).fields)
	if err != nil {
		return nil, err
	}
	return all, cmp.Or(
		message.CheckEach("", all, Scan.check),
		message.CheckDistinct("", "name", all, func(s Scan) string { return s.Name }),
	)
}

// EncodeRequest returns the text of the request of a scan.
func EncodeRequest(q *Request) []byte { return message.Encode(len(q.Config)+256, q.fields) }

// DecodeRequest decodes the request of a scan.
func DecodeRequest(data []byte) (*Request, error) {
	q := &Request{}
	return message.Checked(q, message.Decode(data, q.fields), nil)
}

// EncodeResult returns the text that a scan writes.
func EncodeResult(out *Result) []byte {
	return message.Encode(64*len(out.Objects)+128, out.fields)
}

// DecodeResult decodes and checks what a scan has written. Every error is a [*rawjson.Error] and
// of class abi. The result does not alias data, because signals and names outlive the scan. Empty data
// is an empty result: a guest that fails need not write one.
func DecodeResult(data []byte) (*Result, error) {
	out := &Result{}
	if len(data) == 0 {
		return out, nil
	}
	err := message.DecodeStrict(data, out.fields)
	if out, err = message.Checked(out, err, out.check); err != nil {
		return nil, err
	}
	for i := range out.Objects {
		o := &out.Objects[i]
		o.Namespace, o.Name, o.Signal = strings.Clone(o.Namespace), strings.Clone(o.Name), bytes.Clone(o.Signal)
	}
	return out, nil
}

func (s *Scan) fields(f *message.Fields) {
	f.Required("name", &s.Name)
	f.Duration("interval", &s.Interval)
}

func (q *Request) fields(f *message.Fields) {
	f.Required("controller", &q.Controller)
	f.Required("scan", &q.Scan)
	f.Time("now", &q.Now)
	f.Seed("seed", &q.Seed)
	f.Raw("config", &q.Config)
}

func (out *Result) fields(f *message.Fields) {
	message.Objects(f, "objects", MaxObjects, &out.Objects, (*Object).fields)
	message.Pointer(f, "error", &out.Error, (*abi.Failure).Fields)
}

func (s *Object) fields(f *message.Fields) {
	f.Text("namespace", &s.Namespace)
	f.Required("name", &s.Name)
	f.Raw("signal", &s.Signal)
}

func (s Scan) check() error {
	if err := abi.CheckName("name", s.Name); err != nil {
		return err
	}
	if s.Interval == 0 {
		return rawjson.NewError("interval", "is required: the time between two scans")
	}
	return nil
}

func (out *Result) check() error {
	out.Error.Truncate()
	return message.CheckEach("objects", out.Objects, func(s Object) error {
		if s.Name == "" {
			return rawjson.NewError("name", "is required")
		}
		return cmp.Or(
			message.CheckLength("namespace", len(s.Namespace), abi.MaxName),
			message.CheckLength("name", len(s.Name), abi.MaxName),
			message.CheckLength("signal", len(s.Signal), abi.MaxSignal),
		)
	})
}
