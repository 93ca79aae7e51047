package tck

import "github.com/thole-dev/thole/abi"

// Stage says how far a host must get with a guest.
type Stage string

// The stages.
const (
	StageLoad Stage = "load" // the host must refuse to load it
	StageCall Stage = "call" // it loads; a reconcile must fail with a class
	StageOK   Stage = "ok"   // every reconcile must succeed
)

// Case is one guest and what a host must do with it.
type Case struct {
	Name    string        // a DNS label; the plugin's name in the guest's manifest
	Explain string        // what is wrong or special, and which rule it tests
	Wasm    func() []byte // assembles the guest
	Stage   Stage

	// Mentions must all stand in the load error's text: the user is told
	// the symbol or field (StageLoad).
	Mentions []string
	// Class is how the failed call must be classified (StageCall).
	Class abi.Class
	// Calls is how often reconcile is called with the same request; each
	// call must have the same outcome (StageOK; at least 1).
	Calls int
	// Code and Output are what each call must give (StageOK). An Output of
	// nil stands for any result that [abi.DecodeResult] accepts.
	Code   abi.Code
	Output func(request []byte) []byte
}

// Request is the message that [Run] calls the guests with.
func Request() []byte {
	return abi.EncodeRequest(&abi.Request{
		Controller: controller,
		Object:     []byte(`{"apiVersion":"thole.dev/v1","kind":"Conformance","metadata":{"name":"one","namespace":"default"}}`),
		Reasons:    []abi.Reason{abi.ReasonPrimary},
		Attempt:    0,
	})
}

// Cases lists every guest, those to be refused first.
func Cases() []Case {
	var all []Case
	all = append(all, loadCases()...)
	all = append(all, manifestCases()...)
	all = append(all, callCases()...)
	all = append(all, pointerCases()...)
	all = append(all, okCases()...)
	return append(all, resetCases()...)
}

// CaseOf finds a case by name.
func CaseOf(name string) (Case, bool) {
	for _, c := range Cases() {
		if c.Name == name {
			return c, true
		}
	}
	return Case{}, false
}
