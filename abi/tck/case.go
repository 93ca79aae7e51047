package tck

import (
	"time"

	"github.com/thole-dev/thole/abi"
)

// Stage says how far a host must get with a guest.
type Stage string

// The stages.
const (
	StageLoad Stage = "load" // the host must refuse to load it
	StageCall Stage = "call" // it loads; a reconcile must fail with a class
	StageOK   Stage = "ok"   // every reconcile must succeed
)

// Step is what a host was doing when it refused a guest.
type Step string

// The steps of a load, in order (SPEC.md, "Call sequence").
const (
	StepCheck      Step = "check"      // nothing of the guest has run yet
	StepStart      Step = "start"      // the start function
	StepInitialize Step = "initialize" // _initialize
	StepDescribe   Step = "describe"   // describe
	StepManifest   Step = "manifest"   // what describe wrote
	StepWarm       Step = "warm"       // warm
)

// Limits are what a case needs of the host; a zero field leaves it to the
// host. What a guest does until it is stopped takes as long as they allow, so
// they are small where nothing else ends it.
type Limits struct {
	Deadline    time.Duration // of each entry into the guest
	MemoryBytes uint64        // of one instance
}

// Case is one guest and what a host must do with it.
type Case struct {
	Name    string        // a DNS label; the plugin's name in the guest's manifest
	Explain string        // what is wrong or special, and which rule it tests
	Wasm    func() []byte // assembles the guest
	Stage   Stage
	Limits  Limits

	// Step is where the load must be refused; "" is any (StageLoad).
	Step Step
	// Mentions must all stand in the load error's text: the user is told
	// the symbol or field (StageLoad).
	Mentions []string
	// Class is how the failed call must be classified (StageCall), or the
	// refused load, where it says more than [abi.ClassABI] (StageLoad).
	Class abi.Class
	// Calls is how often reconcile is called with the same request; each
	// call must have the same outcome (StageOK; at least 1).
	Calls int
	// Code and Output are what each call must give (StageOK). An Output of
	// nil stands for any result that [abi.DecodeResult] accepts.
	Code   abi.Code
	Output func(request []byte) []byte
}

// Timed tells whether the deadline ends the guest. All others do the same,
// and cost the same, each time.
func (c Case) Timed() bool { return c.Class == abi.ClassTimeout }

// Request is the message that [Run] calls the guests with.
func Request() []byte {
	return abi.EncodeRequest(&abi.Request{
		Controller: controller,
		Object:     []byte(`{"apiVersion":"thole.dev/v1","kind":"Conformance","metadata":{"name":"one","namespace":"default"}}`),
		Reasons:    []abi.Reason{abi.ReasonPrimary},
		Attempt:    0,
	})
}

// Cases lists the guests that show the contract, kept and broken, those to be
// refused first.
func Cases() []Case {
	var all []Case
	all = append(all, loadCases()...)
	all = append(all, manifestCases()...)
	all = append(all, callCases()...)
	all = append(all, pointerCases()...)
	all = append(all, okCases()...)
	all = append(all, resetCases()...)
	return append(all, stateCases()...)
}

// Hostile lists the guests that are made to harm the host or its other
// guests: to run without end, to fill its memory, to break its meter. It is
// their limits that stop most of them.
func Hostile() []Case {
	var all []Case
	all = append(all, bombCases()...)
	all = append(all, indexCases()...)
	all = append(all, startCases()...)
	all = append(all, loopCases()...)
	all = append(all, callTreeCases()...)
	all = append(all, bulkCases()...)
	all = append(all, stackCases()...)
	all = append(all, memoryCases()...)
	all = append(all, stormCases()...)
	all = append(all, garbageCases()...)
	return append(all, edgeCases()...)
}

// Seeds are the binaries of all guests that are small enough for a fuzzer to
// start from.
func Seeds() [][]byte {
	const small = 16 << 10
	var out [][]byte
	for _, c := range append(Cases(), Hostile()...) {
		if wasm := c.Wasm(); len(wasm) <= small {
			out = append(out, wasm)
		}
	}
	return out
}

// CaseOf finds a case by name, in both lists.
func CaseOf(name string) (Case, bool) {
	for _, list := range []func() []Case{Cases, Hostile} {
		for _, c := range list() {
			if c.Name == name {
				return c, true
			}
		}
	}
	return Case{}, false
}
