package abi

import (
	"bytes"
	"cmp"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// The messages of [ExportScan]: SPEC.md, "Scan".

// Scan is a function of a controller that runs at an interval, once for all objects and all
// replicas of the host, and finds the objects to run.
type Scan struct {
	Name     string // a DNS label, distinct within the controller
	Interval int64  // ms from the end of a scan to the next one; less than 1000 counts as 1000
}

// ScanRequest is the input of one scan.
type ScanRequest struct {
	Controller string    // the name of the controller
	Scan       string    // the name of the scan
	Now        time.Time // UTC: the time that every clock of the guest starts from
	Seed       [32]byte  // random, different for each scan; not suitable for secrets
	Config     []byte    // JSON: the administrator's configuration of the plugin; nil if there is none
}

// ScanResult is the message that a scan writes.
type ScanResult struct {
	Objects []Scanned // to run; of one that is named twice every signal counts
	Error   *Failure  // with a code other than [CodeOK]
}

// Scanned is a primary that a scan makes due.
type Scanned struct {
	Namespace string // "" for a cluster-scoped one
	Name      string
	Signal    []byte // JSON of up to MaxSignal bytes for the request of the object; nil for none
}

// EncodeScanRequest returns the text of the request of a scan.
func EncodeScanRequest(q *ScanRequest) []byte { return message.Encode(len(q.Config)+256, q.fields) }

// DecodeScanRequest decodes the request of a scan.
func DecodeScanRequest(data []byte) (*ScanRequest, error) {
	q := &ScanRequest{}
	return message.Checked(q, message.Decode(data, q.fields), nil)
}

// EncodeScanResult returns the text that a scan writes.
func EncodeScanResult(out *ScanResult) []byte {
	return message.Encode(64*len(out.Objects)+128, out.fields)
}

// DecodeScanResult decodes and checks what a scan has written. Every error is a [*rawjson.Error] and
// of class abi. The result does not alias data, because signals and names outlive the scan. Empty data
// is an empty result: a guest that fails need not write one.
func DecodeScanResult(data []byte) (*ScanResult, error) {
	out := &ScanResult{}
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

func (q *ScanRequest) fields(f *message.Fields) {
	f.Required("controller", &q.Controller)
	f.Required("scan", &q.Scan)
	f.Time("now", &q.Now)
	f.Seed("seed", &q.Seed)
	f.Raw("config", &q.Config)
}

func (out *ScanResult) fields(f *message.Fields) {
	message.Objects(f, "objects", MaxScanned, &out.Objects, (*Scanned).fields)
	message.Pointer(f, "error", &out.Error, (*Failure).fields)
}

func (s *Scanned) fields(f *message.Fields) {
	f.Text("namespace", &s.Namespace)
	f.Required("name", &s.Name)
	f.Raw("signal", &s.Signal)
}

func (s Scan) check() error {
	if err := checkName("name", s.Name); err != nil {
		return err
	}
	if s.Interval == 0 {
		return rawjson.NewError("interval", "is required: the time between two scans")
	}
	return nil
}

func (out *ScanResult) check() error {
	truncateMessage(out.Error)
	return message.CheckEach("objects", out.Objects, func(s Scanned) error {
		if s.Name == "" {
			return rawjson.NewError("name", "is required")
		}
		return cmp.Or(
			message.CheckLength("namespace", len(s.Namespace), MaxName),
			message.CheckLength("name", len(s.Name), MaxName),
			message.CheckLength("signal", len(s.Signal), MaxSignal),
		)
	})
}
