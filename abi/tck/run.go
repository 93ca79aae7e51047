package tck

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

// Host is the host under test. Its capabilities must answer as [Get] and
// [List] do.
type Host interface {
	// Load makes a plugin of that name ready to be called within those
	// limits, or says why not. The error may implement [Classified] and
	// [Refusal].
	Load(name string, wasm []byte, limits Limits) (Guest, error)
}

// Guest is a loaded plugin.
type Guest interface {
	// Reconcile makes one call. An error is a call that did not return
	// as the ABI says; it should implement [Classified].
	Reconcile(request []byte) (code int32, output []byte, err error)
	Close()
}

// Classified is what errors of [Guest.Reconcile] implement, themselves or
// wrapped, so that the class can be checked.
type Classified interface {
	error
	FailureClass() abi.Class
}

// Refusal is what errors of [Host.Load] may implement, themselves or wrapped,
// so that the step can be checked.
type Refusal interface {
	error
	RefusedAt() Step
}

// Metered is what a [Guest] may implement: what its last call cost, in a unit
// of the host's. The same call must always cost the same.
type Metered interface{ Fuel() uint64 }

// Run loads and calls guests, those of [Cases] or [Hostile], and reports each
// deviation as a failed subtest of the case's name.
func Run(t *testing.T, host Host, cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Verify(host); err != nil {
				t.Errorf("%v\nthe guest: %s", err, c.Explain)
			}
		})
	}
}

// Verify loads and calls one guest and tells the first deviation.
func (c Case) Verify(host Host) error {
	guest, err := host.Load(c.Name, c.Wasm(), c.Limits)
	if c.Stage == StageLoad {
		return c.verifyRefusal(guest, err)
	}
	if err != nil {
		return fail("load must succeed, but: %v", err)
	}
	defer guest.Close()
	if c.Stage == StageCall {
		return c.verifyFailure(guest)
	}
	return c.verifySuccess(guest)
}

func (c Case) verifyRefusal(guest Guest, err error) error {
	if err == nil {
		guest.Close()
		return errors.New("load must be refused, but succeeded")
	}
	for _, symbol := range c.Mentions {
		if !strings.Contains(err.Error(), symbol) {
			return fail("the load error must name %q: %v", symbol, err)
		}
	}
	if at, ok := errors.AsType[Refusal](err); ok && c.Step != "" && at.RefusedAt() != c.Step {
		return fail("load must be refused at step %s, but was at %s: %v", c.Step, at.RefusedAt(), err)
	}
	if classified, ok := errors.AsType[Classified](err); ok && c.Class != "" && classified.FailureClass() != c.Class {
		return fail("load must be refused as %s, but was as %s: %v", c.Class, classified.FailureClass(), err)
	}
	return nil
}

func (c Case) verifyFailure(guest Guest) error {
	var cost steady
	for range 2 { // a failed call must not spoil the next
		_, output, err := guest.Reconcile(Request())
		if err := cost.check(c, guest); err != nil {
			return err
		}
		class, err := classOf(output, err)
		if err == nil {
			return fail("the call must fail as %s, but gave %.200q", c.Class, output)
		}
		if class != c.Class {
			return fail("the call must fail as %s, but failed as %q: %v", c.Class, class, err)
		}
	}
	return nil
}

// classOf classifies a call; a returned result that cannot be decoded is
// class abi, whoever decodes it.
func classOf(output []byte, err error) (abi.Class, error) {
	if err == nil {
		_, err = abi.DecodeResult(output)
		return abi.ClassABI, err
	}
	if classified, ok := errors.AsType[Classified](err); ok {
		return classified.FailureClass(), err
	}
	return abi.ClassNone, err
}

func (c Case) verifySuccess(guest Guest) error {
	request := Request()
	var cost steady
	for i := range max(c.Calls, 1) {
		code, output, err := guest.Reconcile(request)
		if err := cost.check(c, guest); err != nil {
			return err
		}
		if err != nil {
			return fail("call %d must succeed, but: %v", i+1, err)
		}
		if abi.Code(code) != c.Code {
			return fail("call %d must answer %d, but answered %d", i+1, c.Code, code)
		}
		if err := c.verifyOutput(request, output); err != nil {
			return fail("call %d: %w", i+1, err)
		}
	}
	return nil
}

// steady holds each call of a guest to the cost of the first.
type steady struct {
	first uint64
	any   bool
}

func (s *steady) check(c Case, guest Guest) error {
	metered, ok := guest.(Metered)
	if !ok || c.Timed() {
		return nil
	}
	fuel := metered.Fuel()
	if s.any && fuel != s.first {
		return fail("the same call must cost the same, but cost %d and then %d", s.first, fuel)
	}
	s.first, s.any = fuel, true
	return nil
}

func (c Case) verifyOutput(request, output []byte) error {
	if c.Output == nil {
		_, err := abi.DecodeResult(output)
		return err
	}
	if want := c.Output(request); !bytes.Equal(output, want) {
		return fail("the result must be %s, but is %.200q", want, output)
	}
	return nil
}
