package tck

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

// Host is the host under test. Its capabilities must return what [Get] and
// [List] return.
type Host interface {
	// Load loads a plugin of that name with those limits. The error may
	// implement [Classified] and [Refusal].
	Load(name string, wasm []byte, limits Limits) (Guest, error)
}

// Guest is a loaded plugin.
type Guest interface {
	// Reconcile makes one call. The error is for a call that did not return as
	// the ABI specifies; it should implement [Classified].
	Reconcile(request []byte) (code int32, output []byte, err error)
	Close()
}

// Classified is an error with a failure class. Errors of [Guest.Reconcile]
// should implement it, themselves or wrapped, so that the class can be checked.
type Classified interface {
	error
	FailureClass() abi.Class
}

// Refusal is an error with the step at which a guest was refused. Errors of
// [Host.Load] may implement it, themselves or wrapped, so that the step can be
// checked.
type Refusal interface {
	error
	RefusedAt() Step
}

// Metered is a [Guest] that meters its calls. Fuel returns the cost of the last
// call, in a unit of the host's. The same call must always cost the same.
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

// Verify loads and calls one guest and returns the first deviation.
func (c Case) Verify(host Host) error {
	guest, err := host.Load(c.Name, c.Wasm(), c.Limits)
	if c.Stage == StageLoad {
		return c.verifyRefusal(guest, err)
	}
	if err != nil {
		return fmt.Errorf("load must succeed, but: %w", err)
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
			return fmt.Errorf("the load error must name %q: %w", symbol, err)
		}
	}
	if at, ok := errors.AsType[Refusal](err); ok && c.Step != "" && at.RefusedAt() != c.Step {
		return fmt.Errorf("load must be refused at step %s, but was at %s: %w", c.Step, at.RefusedAt(), err)
	}
	if classified, ok := errors.AsType[Classified](err); ok && c.Class != "" && classified.FailureClass() != c.Class {
		return fmt.Errorf("load must be refused as %s, but was as %s: %w", c.Class, classified.FailureClass(), err)
	}
	return nil
}

func (c Case) verifyFailure(guest Guest) error {
	var cost costCheck
	for range 2 { // the second call shows that the first one has spoilt nothing
		_, output, err := guest.Reconcile(Request())
		if err := cost.add(c, guest); err != nil {
			return err
		}
		class, err := classOf(output, err)
		if err == nil {
			return fmt.Errorf("the call must fail as %s, but returned %.200q", c.Class, output)
		}
		if class != c.Class {
			return fmt.Errorf("the call must fail as %s, but failed as %q: %w", c.Class, class, err)
		}
	}
	return nil
}

// classOf classifies a call. A result that cannot be decoded has class abi,
// whether the host or its caller decodes it.
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
	var cost costCheck
	for i := range max(c.Calls, 1) {
		code, output, err := guest.Reconcile(request)
		if err := cost.add(c, guest); err != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("call %d must succeed, but: %w", i+1, err)
		}
		if abi.Code(code) != c.Code {
			return fmt.Errorf("call %d must return %d, but returned %d", i+1, c.Code, code)
		}
		if err := c.verifyOutput(request, output); err != nil {
			return fmt.Errorf("call %d: %w", i+1, err)
		}
	}
	return nil
}

// costCheck compares the cost of each call of a guest with that of the first.
type costCheck struct {
	first uint64
	any   bool // whether first is set
}

func (s *costCheck) add(c Case, guest Guest) error {
	metered, ok := guest.(Metered)
	if !ok || c.Timed() {
		return nil
	}
	fuel := metered.Fuel()
	if s.any && fuel != s.first {
		return fmt.Errorf("the same call must cost the same, but cost %d and then %d", s.first, fuel)
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
		return fmt.Errorf("the result must be %s, but is %.200q", want, output)
	}
	return nil
}
