package sdktest

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// This file has the scans of the controller: abi/scans/SPEC.md.

// Scanner is implemented by a [Runner] of plugins with scans.
type Scanner interface {
	// Scan scans for the text of an [scans.Request], and returns the text of an [scans.Result]. Its
	// errors are those of Reconcile.
	Scan(request []byte, host Host) (abi.Code, []byte, error)
}

func (native) Scan(request []byte, host Host) (abi.Code, []byte, error) {
	code, result := guest.Scan(host, request)
	return code, result, nil
}

// Scan is one scan of the controller.
type Scan struct {
	Code   abi.Code
	Result *scans.Result // nil if the guest did not return one
	// Objects are those that are due for it, and Ignored those that it has named beside them and the
	// controller does not follow: "namespace/name", or "name" for a cluster-scoped kind, in their order.
	Objects, Ignored []string
	// Class, Reason and Message describe the failure of the scan, as those of a [Run].
	Class   abi.Class
	Reason  string
	Message string
	Logs    []Line

	tb testing.TB
}

// Scan makes the scan of that name. The time of the world stays as it is: see [World.Advance].
//
// What the scan signals is in the requests of the next runs of its objects, until one has ended well.
func (w *World) Scan(name string) *Scan {
	w.tb.Helper()
	all, _ := scans.Decode(w.controller.Section(scans.Name)) // was checked
	if !slices.ContainsFunc(all, func(s scans.Scan) bool { return s.Name == name }) {
		w.tb.Fatalf("scan %s: the controller has no scan of that name", name)
	}
	scanner, ok := w.runner.(Scanner)
	if !ok {
		w.tb.Fatalf("scan %s: the runner of the test is no sdktest.Scanner", name)
	}
	w.labelChildren()
	w.serial++
	q := &scans.Request{Controller: w.controller.Name, Scan: name, Now: w.now, Config: w.config}
	binary.LittleEndian.PutUint64(q.Seed[:], uint64(w.serial))
	run := &Run{tb: w.tb, world: w, primary: &object{}, serial: w.serial}
	s := &Scan{tb: w.tb}
	s.decode(scanner.Scan(scans.EncodeRequest(q), scanHost{asHost{run}}))
	if s.Logs = run.Logs; run.unavailable { // it is made again
		s.Class, s.Reason, s.Message = abi.ClassRetry, "Unavailable", "a read was not available yet"
	}
	if s.Class == abi.ClassNone {
		w.deliver(s)
	}
	return s
}

// scanHost is the [Host] of a scan, which sends no requests.
type scanHost struct{ asHost }

// HTTP is denied.
func (scanHost) HTTP([]byte) ([]byte, int64) { return nil, abi.CodeDenied }

// decode sets the result of the scan, or its failure.
func (s *Scan) decode(code abi.Code, text []byte, err error) {
	if err != nil {
		s.Class, s.Message = classOf(err), err.Error()
		return
	}
	result, err := scans.DecodeResult(text)
	if err != nil {
		s.Class, s.Reason, s.Message = abi.ClassABI, "InvalidResult", err.Error()
		return
	}
	if s.Code, s.Result = code, result; code == abi.CodeOK {
		return
	}
	s.Class = cmp.Or(outcome.ClassOf(code), abi.ClassRetry)
	if result.Error != nil {
		s.Reason, s.Message = result.Error.Reason, result.Error.Message
	}
}

// deliver gives the objects of a scan their signals.
func (w *World) deliver(s *Scan) {
	for _, found := range s.Result.Objects {
		name := strings.TrimPrefix(found.Namespace+"/"+found.Name, "/")
		o := w.primaryAt(idOf(w.controller.For.Ref(found.Namespace, found.Name)))
		if o == nil {
			s.Ignored = append(s.Ignored, name)
			continue
		}
		k := w.key(o)
		k.signalled = true
		if found.Signal != nil {
			k.addSignals([][]byte{found.Signal})
		}
		if !slices.Contains(s.Objects, name) {
			s.Objects = append(s.Objects, name)
		}
	}
}

// ExpectSuccess expects that the scan has not failed.
func (s *Scan) ExpectSuccess() *Scan {
	s.tb.Helper()
	return s.ExpectFailure(abi.ClassNone, "")
}

// ExpectFailure expects that the scan failed with a class and a reason; "" is any reason.
func (s *Scan) ExpectFailure(class abi.Class, reason string) *Scan {
	s.tb.Helper()
	return s.expect(s.Class == class && (reason == "" || s.Reason == reason),
		"the scan failed with class %q, %s (%s), expected %q, %s", s.Class, s.Reason, s.Message, class, reason)
}

// ExpectObjects expects that the scan has succeeded and that exactly these objects are due for it, in this
// order: "namespace/name", or "name" for a cluster-scoped kind.
func (s *Scan) ExpectObjects(names ...string) *Scan {
	s.tb.Helper()
	return s.ExpectSuccess().expect(slices.Equal(s.Objects, names), "the scan makes %q due, expected %q", s.Objects, names)
}

// ExpectSignals expects that the scan gave exactly these signals, of all its objects, in this order. They
// are JSON.
func (s *Scan) ExpectSignals(signals ...string) *Scan {
	s.tb.Helper()
	var got []string
	if s.Result != nil {
		for _, o := range s.Result.Objects {
			if o.Signal != nil {
				got = append(got, string(o.Signal))
			}
		}
	}
	same := slices.EqualFunc(got, signals, func(a, b string) bool { return rawjson.Equal([]byte(a), []byte(b)) })
	return s.expect(same, "the scan signals %q, expected %q", got, signals)
}

// ExpectLog expects a line whose message contains text.
func (s *Scan) ExpectLog(text string) *Scan {
	s.tb.Helper()
	return s.expect(hasLine(s.Logs, text), "the scan logged %v, expected a line with %q", s.Logs, text)
}

// expect fails the test with a message unless ok.
func (s *Scan) expect(ok bool, format string, args ...any) *Scan {
	s.tb.Helper()
	if !ok {
		s.tb.Errorf(format, args...)
	}
	return s
}
