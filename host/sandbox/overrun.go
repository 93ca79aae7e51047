package sandbox

import (
	"errors"
	"fmt"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/sandbox/deadline"
)

// overrun ends a call from within: its deadline has passed, its fuel is used
// up, its stack is too large, or its context has ended for another reason.
type overrun struct{ cause error }

func (o *overrun) Error() string { return o.cause.Error() }
func (o *overrun) Unwrap() error { return o.cause }

// overran is how an entry ended, if by an overrun.
func overran(err error) (*overrun, bool) { return errors.AsType[*overrun](err) }

// fault tells what the guest did wrong; ok is false if it did nothing.
func (o *overrun) fault(c *call) (class abi.Class, message string, ok bool) {
	switch {
	case errors.Is(o.cause, deadline.ErrPassed):
		return abi.ClassTimeout, "the deadline of the call passed", true
	case errors.Is(o.cause, errFuel):
		return abi.ClassTimeout, fmt.Sprintf("the fuel of the call is used up: more than %d instructions: look for a loop without an end, or do less in one call", c.fuel.limit), true
	case errors.Is(o.cause, errStack):
		return abi.ClassStackOverflow, nestsTooDeeply, true
	}
	return "", "", false
}

const nestsTooDeeply = "the guest's calls nest too deeply: look for recursion without an end"
