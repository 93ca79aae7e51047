package dispatch

import (
	"errors"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/sandbox"
)

// FaultReport describes the latest run that failed because of the plugin itself,
// in /plugins. Everybody who reaches the port may read it: there is nothing in it that the
// plugin has written or printed, but for the names of its functions.
type FaultReport struct {
	Time        time.Time `json:"time"`
	Controller  string    `json:"controller"`
	Object      string    `json:"object"` // namespace/name
	Class       abi.Class `json:"class"`
	Reason      string    `json:"reason"`            // CamelCase, as in the conditions of the object
	Message     string    `json:"message,omitempty"` // in the words of the host alone
	Stack       []string  `json:"stack,omitempty"`   // functions, innermost first, as far as they are known
	Fuel        int64     `json:"fuel"`              // instructions
	MemoryBytes uint64    `json:"memoryBytes"`       // of the instance, at its largest
	Seconds     float64   `json:"seconds"`           // in the guest
}

// failed records why a call did not return.
func (g *guestCall) failed(err error) {
	g.fault = &outcome.Fault{Class: abi.ClassRetry, Message: err.Error()}
	g.replaced = errors.Is(err, sandbox.ErrClosed)
	if fault, ok := errors.AsType[*sandbox.Fault](err); ok && !fault.HostCaused() {
		fault.Stack, fault.PrintedStack = boundStack(fault.Stack), boundStack(fault.PrintedStack)
		g.guestFault = fault
		g.fault.Class, g.fault.Message = fault.Class, err.Error()+Where(fault.Stack)
	}
}

// printed returns what the guest printed as it failed, and where that was; "" for nothing.
func (g *guestCall) printed() string {
	if g.guestFault.Printed == "" {
		return ""
	}
	return g.guestFault.Printed + Where(g.guestFault.PrintedStack)
}

// Bounds of a reported stack: the names of its functions are chosen by the
// plugin.
const (
	maxFrames        = 30
	maxFramesInText  = 5
	maxFunctionBytes = 200
)

func boundStack(stack []string) []string {
	var out []string
	for _, name := range stack[:min(len(stack), maxFrames)] {
		out = append(out, strings.ToValidUTF8(name[:min(len(name), maxFunctionBytes)], ""))
	}
	return out
}

// Where returns the innermost functions of a stack that are the plugin's own, as
// the end of a message; "" if none is known. Functions of the language's runtime
// around a panic are left out.
func Where(stack []string) string {
	stack = boundStack(stack)
	for len(stack) > 1 && strings.HasPrefix(stack[0], "runtime.") {
		stack = stack[1:]
	}
	if len(stack) == 0 {
		return ""
	}
	return "; in " + strings.Join(stack[:min(len(stack), maxFramesInText)], " < ")
}

// reportToBreaker ends the permit of the call by what was decided about it, and returns the standing
// that the key has by it, notRun for none. A call that proves nothing about the plugin, such as a failure
// of the host, does not count.
func (g *guestCall) reportToBreaker(p *permit, d *outcome.Decision) standing {
	switch {
	case d.Uncounted:
	case outcome.PluginFault(d.Class):
		p.report(g.faultReport(d), g.returned.Usage.Duration)
		return failed
	case g.fault == nil: // else a failure of the host
		p.report(nil, g.returned.Usage.Duration)
		return ranWell
	}
	p.cancel()
	return notRun
}

// standingOf returns the standing of a key that the caller has taken from the queue.
func (c *Controller) standingOf(key object.Key) standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.objectTurns[key]; t != nil {
		key = t.object
	}
	s := c.keys[key]
	if gone := c.goneObjects.byKey[key]; len(gone) > 0 && (s == nil || s.uid != gone[0].state.uid) {
		s = gone[0].state
	}
	if s == nil || s.replaced {
		return notRun
	}
	return s.history.standing
}

func (g *guestCall) faultReport(d *outcome.Decision) *FaultReport {
	report := &FaultReport{
		Time: time.Now().UTC(), Controller: g.c.Name, Object: g.key.String(),
		Class: d.Class, Reason: d.Reason,
		Fuel: g.returned.Usage.Fuel, MemoryBytes: g.returned.Usage.MemoryBytes, Seconds: g.returned.Usage.Duration.Seconds(),
	}
	if g.guestFault != nil {
		report.Message, report.Stack = g.guestFault.Error(), g.guestFault.Stack
	}
	return report
}
