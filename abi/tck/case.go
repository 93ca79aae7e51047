// Package tck is the conformance kit of thole/v1: guests as real WebAssembly,
// correct and hostile, with what a host must do with each of them, and a check
// for any guest.
//
//   - [Cases] and [Hostile] list the guests; [Run] loads and calls each of them
//     through a [Host].
//   - [Check] checks a guest's imports and exports without running it.
//   - [Module] assembles guests, so that no compiler is needed. It encodes with
//     package abi/wasm.
//
// README.md describes how to run the kit against another host or guest.
//
// This file has the cases; run.go runs them, check.go is [Check], assemble.go
// and instructions.go are the assembler. The guests are in guests_*.go, by what
// they do; guest.go has what they share.
package tck

import (
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/abi/webhooks"
)

// Stage is how far a host must get with a guest.
type Stage string

// The stages.
const (
	StageLoad Stage = "load" // the host must refuse to load it
	StageCall Stage = "call" // it loads; a reconcile must fail with a class
	StageOK   Stage = "ok"   // every reconcile must succeed
)

// Step is a step of a load.
type Step string

// The steps of a load, in order (SPEC.md, "Call sequence").
const (
	StepCheck      Step = "check"      // before any code of the guest runs
	StepStart      Step = "start"      // the start function
	StepInitialize Step = "initialize" // _initialize
	StepDescribe   Step = "describe"   // describe
	StepManifest   Step = "manifest"   // decoding what describe wrote
	StepWarm       Step = "warm"       // warm
)

// Limits are the limits that a case needs. A zero field leaves the limit to the
// host. Where nothing but a limit ends a guest, the limit is small, so that the
// kit does not take long.
type Limits struct {
	Deadline    time.Duration // of each entry into the guest
	MemoryBytes uint64        // of one instance
}

// Case is one guest and what a host must do with it.
type Case struct {
	Name    string        // a DNS label; also the plugin's name in the manifest
	Explain string        // what is wrong or special about the guest
	Wasm    func() []byte // assembles the guest
	Stage   Stage
	Limits  Limits

	// Step is where the load must be refused; "" allows any (StageLoad).
	Step Step
	// Mentions must all be in the text of the load error, so that the user
	// learns the symbol or field (StageLoad).
	Mentions []string
	// Class is the class of the failed call (StageCall), or of the refused
	// load if it is another one than [abi.ClassABI] (StageLoad).
	Class abi.Class
	// Hides must not be in the text of the call's error: the guest may have read it
	// anywhere (StageCall).
	Hides string
	// StatusOwner is that of the guest's controller: it decides which results are valid.
	StatusOwner abi.StatusOwner
	// Index is whether the calls are those of the export index, with [IndexRequest], and
	// not of reconcile. A guest that is no [Indexer] is loaded only.
	Index bool
	// Daemon is whether the calls are those of the export daemon, with [DaemonRequest]. A
	// guest that is no [Stepper] is loaded only.
	Daemon bool
	// Last is whether each step is a last one, with the event stop (Daemon).
	Last bool
	// Scan is whether the calls are those of the export scan, with [ScanRequest]. A guest that is no
	// [Scanner] is loaded only.
	Scan bool
	// Review is the export of the calls, with [ReviewRequest]: validate, mutate or convert; ""
	// for none of them. A guest that is no [Reviewer] is loaded only.
	Review string
	// Runs is whether a call of reconcile, which must succeed, precedes each call (Daemon,
	// Scan and Review).
	Runs bool
	// Calls is how often the export is called with the same request, but for
	// Namespaces. Each call
	// must have the same outcome (StageCall and StageOK; at least 1).
	Calls int
	// Namespaces is whether each call is for an object in another namespace, as
	// [RequestIn] makes them, instead of all for that of [Request]. Steps of
	// daemons and reviews are for objects in these namespaces, too.
	Namespaces bool
	// Code and Output are what each call must return (StageOK). If Output is
	// nil, any result is right that can be decoded.
	Code   abi.Code
	Output func(request []byte) []byte
}

// Timed reports whether the guest ends by its deadline. All other guests do the
// same, and cost the same fuel, in each call.
func (c Case) Timed() bool { return c.Class == abi.ClassTimeout }

// Request returns the message that [Run] calls the guests with.
func Request() []byte { return RequestIn("default") }

// RequestIn returns [Request] for an object in a namespace.
func RequestIn(namespace string) []byte {
	return abi.EncodeRequest(&abi.Request{
		Controller: controller,
		Object:     objectIn(namespace),
		Reasons:    []abi.Reason{abi.ReasonPrimary},
		Attempt:    0,
	})
}

func objectIn(namespace string) []byte {
	return []byte(`{"apiVersion":"thole.dev/v1","kind":"Conformance","metadata":{"name":"one","namespace":"` + namespace + `"}}`)
}

// Cases lists the guests that keep or break one rule of the contract each.
// Those that must not load come first.
func Cases() []Case {
	return slices.Concat(
		loadCases(), manifestCases(), changesLoadCases(), keysLoadCases(), daemonLoadCases(),
		reviewLoadCases(), scanLoadCases(), statusLoadCases(),
		callCases(), pointerCases(), okCases(), createCases(), changesCases(), adoptionCases(), keysCases(), daemonCases(), httpCases(), resetCases(), stateCases(), daemonResetCases(),
		reviewCases(), reviewResetCases(), scanCases(), scanResetCases(), statusCases(), groupsCases(),
	)
}

// Hostile lists the guests that try to harm the host or other guests: by
// running without end, exhausting its memory, or evading its fuel metering.
// Limits end most of them.
func Hostile() []Case {
	return slices.Concat(
		bombCases(), indexCases(), startCases(), loopCases(), callTreeCases(), bulkCases(),
		slowCases(), stackCases(), memoryCases(), stormCases(), resultCases(), createResultCases(), edgeCases(), hostileKeysCases(), hostileDaemonCases(),
		hostileReviewCases(), hostileScanCases(), hostileGroupsCases(),
	)
}

func allCases() []Case { return append(Cases(), Hostile()...) }

// Seeds returns the binaries of all guests that are small enough to be the seed
// corpus of a fuzz test.
func Seeds() [][]byte {
	const small = 16 << 10
	var out [][]byte
	for _, c := range allCases() {
		if wasm := c.Wasm(); len(wasm) <= small {
			out = append(out, wasm)
		}
	}
	return out
}

// CaseOf returns the case of a name from either list, and whether there is one.
func CaseOf(name string) (Case, bool) {
	all := allCases()
	i := slices.IndexFunc(all, func(c Case) bool { return c.Name == name })
	if i < 0 {
		return Case{}, false
	}
	return all[i], true
}

// Capability is one that a host must have for some of the cases.
type Capability struct {
	Name  string // of its section
	Check func(c *abi.Controller, section []byte) error
	// CheckManifest returns what is wrong with the sections of all controllers together, once they were checked. It
	// may be nil.
	CheckManifest func(m *abi.Manifest) error
	// CheckResult returns what is wrong with the section of a result; nil: no result has one.
	CheckResult func(section []byte) error
	Exports     []Export // that it calls
	// Import is what it answers as [Import] does; "" for none. A message of more than MaxMessage bytes is
	// [abi.CodeInvalid]. HasEffects is set if what that does is not undone, see [Export].Effects.
	Import     string
	MaxMessage int
	HasEffects bool
}

// Export is a function of guests that a capability calls.
type Export struct {
	Name string
	// Needed reports whether a guest needs it whose manifest has a section; nil: it does.
	Needed func(section []byte) bool
	// Imports are the functions of the host that may be called meanwhile, beside input, output and log; nil: all.
	// Others return [abi.CodeDenied].
	Imports []string
	// Effects is set if what the import of a capability with effects does may be done in the calls. In those of others
	// it returns [abi.CodeDenied].
	Effects bool
}

// Exports of capabilities that the cases call.
const (
	ScanExport   = scans.Export
	DaemonExport = daemon.Export
	IndexExport  = functionindexes.Export
)

// Capabilities returns those of the cases.
func Capabilities() []Capability {
	asked := Capability{Name: webhooks.Name, Check: webhooks.Check, CheckManifest: webhooks.CheckManifest}
	for _, export := range webhooks.Exports() {
		asked.Exports = append(asked.Exports, Export{Name: export, Needed: webhooks.NeededFor(export), Imports: webhooks.Imports(export)})
	}
	return []Capability{
		{Name: changes.Name, Check: changes.Check, CheckResult: func(section []byte) error {
			_, err := changes.DecodeResult(section)
			return err
		}},
		{Name: scans.Name, Check: scans.Check, Exports: []Export{{Name: scans.Export}}},
		{Name: daemon.Name, Check: daemon.Check, Exports: []Export{{Name: daemon.Export, Effects: true}}},
		{Name: http.Name, Check: http.Check, Import: http.Import, MaxMessage: http.MaxMessage, HasEffects: true},
		asked,
		{
			Name: functionindexes.Name, Check: functionindexes.Check, CheckManifest: functionindexes.CheckManifest,
			Exports: []Export{{Name: functionindexes.Export, Imports: []string{}}},
			Import:  functionindexes.Import, MaxMessage: abi.MaxCall,
		},
	}
}
