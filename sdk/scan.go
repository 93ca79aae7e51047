package sdk

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// This file has the scans of a controller: abi/scans/SPEC.md.

// Scan returns a function of a [Controller] that runs at an interval, once for all objects and all
// replicas of the host, and finds the objects to run. It belongs into the field Scans.
//
//	Scans: []sdk.ScanFunc{
//		sdk.Scan("due", 30*time.Second, func(s *sdk.Scanning) error {
//			pending, err := sdk.Primaries[Spec, Status](s, sdk.Query{FieldSelector: "status.phase=Pending"})
//			for _, o := range pending {
//				if !o.Spec.Start.Time().After(s.Now) {
//					s.Signal(o.Namespace, o.Name, "start")
//				}
//			}
//			return err
//		}),
//	},
//
// The name is a DNS label, distinct within the controller. The interval, of at least a second, is from
// the end of a scan to the next one. The first scan begins when a replica of the host begins to lead the
// plugin, and with each revision.
//
// A scan changes nothing itself: it names objects, whose runs have the [Run].Signals. It reads what a
// run of a cluster-scoped object may read, so the policy must allow the namespaces; what it has read wakes
// nobody. A scan that returns an error names nothing, and the next one is made after the interval.
// Nothing that must happen may depend on a signal: they are lost when the host ends.
func Scan(name string, interval time.Duration, scan func(*Scanning) error) ScanFunc {
	if scan == nil {
		panic("sdk.Scan: the function of scan " + strconv.Quote(name) + " is nil")
	}
	return ScanFunc{func(c *abi.Controller) {
		addScan(c, scans.Scan{Name: name, Interval: milliseconds(interval)})
		guest.AddScan(c.Name, name, func(h guest.Host, q *scans.Request) (abi.Code, *scans.Result) {
			s := newScanning(h, q, c.For.Kind)
			return s.end(scan(s))
		})
	}}
}

// addScan adds a scan to the section of a controller.
func addScan(c *abi.Controller, s scans.Scan) {
	for i := range c.Sections {
		if at := &c.Sections[i]; at.Name == scans.Name {
			all, _ := scans.Decode(at.Value) // if it is not valid, the host says why
			at.Value = scans.Encode(append(all, s))
			return
		}
	}
	c.Sections = append(c.Sections, abi.Section{Name: scans.Name, Value: scans.Encode([]scans.Scan{s})})
}

// ScanFunc is made by [Scan].
type ScanFunc struct {
	register func(*abi.Controller) // a field, so that plugins without scans do not contain their code
}

// Scanning is one call of the function of a scan.
type Scanning struct {
	// Now is the time of the scan, UTC. Package time uses the same clock.
	Now time.Time
	// Log writes to the host's log.
	Log Log

	run     *Run // for reads
	primary Kind
	result  scans.Result
	invalid error // of the first signal that could not be encoded
}

func newScanning(h guest.Host, q *scans.Request, primary Kind) *Scanning {
	run := newRun(h, &abi.Request{Now: q.Now, Seed: q.Seed, Config: q.Config})
	return &Scanning{Now: q.Now, Log: run.Log, run: run, primary: primary}
}

// Run makes an object of the primary kind run. The namespace of a cluster-scoped one is "". An object
// that does not exist, or is not followed, is left out by the host. A scan names up to 10,000 objects;
// those beyond that are for the next scan.
func (s *Scanning) Run(namespace, name string) { s.add(scans.Object{Namespace: namespace, Name: name}) }

// Signal is [Scanning.Run] with a value of at most 4 KiB as JSON for [Run].Signals of the object. All
// signals of an object that is named several times count.
func (s *Scanning) Signal(namespace, name string, v Value) {
	data, err := encode(v)
	if err == nil && len(data) > abi.MaxSignal {
		err = errors.New("larger than 4 KiB")
	}
	if err != nil && s.invalid == nil {
		s.invalid = Stalled("InvalidSignal", errors.New("encode signal: "+err.Error()))
	}
	s.add(scans.Object{Namespace: namespace, Name: name, Signal: data})
}

func (s *Scanning) add(o scans.Object) {
	if len(s.result.Objects) < scans.MaxObjects {
		s.result.Objects = append(s.result.Objects, o)
	}
}

// Rand is [Run.Rand].
func (s *Scanning) Rand() *rand.Rand { return s.run.Rand() }

// Config is [Run.Config].
func (s *Scanning) Config(into Value) error { return s.run.Config(into) }

// Get is [Run.Get]. What it reads wakes nobody.
func (s *Scanning) Get(ref Ref, into Value, options ...ReadOption) error {
	return s.run.Get(ref, into, options...)
}

// List is [Run.List]. What it reads wakes nobody.
func (s *Scanning) List(query Query, into Value, options ...ReadOption) error {
	return s.run.List(query, into, options...)
}

// Lookup is [Run.Lookup]. What it reads wakes nobody.
func (s *Scanning) Lookup(query IndexQuery) ([]IndexItem, error) { return s.run.Lookup(query) }

// Primaries lists objects of the primary kind in a scan, with the types of their spec and status. The
// kind of the query is set. An object that does not fit the types is logged and left out, so that it does
// not keep others from being found: its own runs show what is wrong with it.
func Primaries[Spec, Status Value](s *Scanning, query Query, options ...ReadOption) ([]Object[Spec, Status], error) {
	query.Kind = s.primary
	var texts []itemText
	if err := s.List(query, &texts, options...); err != nil {
		return nil, err
	}
	all := make([]Object[Spec, Status], 0, len(texts))
	for _, text := range texts {
		var o Object[Spec, Status]
		if err := o.read(text.raw); err != nil {
			s.Log.Warn("the scan leaves out an object that cannot be read", "name", o.Namespace+"/"+o.Name, "error", err)
			continue
		}
		all = append(all, o)
	}
	return all, nil
}

// itemText is the JSON of an element of a list.
type itemText struct{ raw Raw }

// DecodeJSON keeps the text of the value, which is that of the reply.
func (t *itemText) DecodeJSON(r *Reader) { t.raw = r.Raw() }

// end returns the code and the result of the scan.
func (s *Scanning) end(err error) (abi.Code, *scans.Result) {
	if err == nil {
		err = s.invalid
	}
	if err == nil {
		return abi.CodeOK, &s.result
	}
	code, failure := failureOf(err)
	return code, &scans.Result{Error: failure}
}
