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
func (r *run) failed(err error) {
	r.fault = &outcome.Fault{Class: abi.ClassRetry, Message: err.Error()}
	r.replaced = errors.Is(err, sandbox.ErrClosed)
	if fault, ok := errors.AsType[*sandbox.Fault](err); ok && !fault.HostCaused() {
		fault.Stack, fault.PrintedStack = boundStack(fault.Stack), boundStack(fault.PrintedStack)
		r.guestFault = fault
		r.fault.Class, r.fault.Message = fault.Class, err.Error()+Where(fault.Stack)
	}
}

// printed returns what the guest printed as it failed, and where that was; "" for nothing.
func (r *run) printed() string {
	if r.guestFault.Printed == "" {
		return ""
	}
	return r.guestFault.Printed + Where(r.guestFault.PrintedStack)
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

// reportToBreaker ends the permit of the run by how the run ended. A run that
// proves nothing about the plugin, such as a failure of the host, does not count.
func (r *run) reportToBreaker(p *permit) {
	switch {
	case r.decision.Uncounted:
		p.cancel()
	case outcome.PluginFault(r.decision.Class):
		r.setStanding(failed)
		p.report(r.faultReport(), r.returned.Usage.Duration)
	case r.fault != nil: // a failure of the host
		p.cancel()
	default:
		r.setStanding(ranWell)
		p.report(nil, r.returned.Usage.Duration)
	}
}

// setStanding keeps how the run has ended. A scan has no standing: how it has ended counts for no
// other one, so that its credit is its own.
func (r *run) setStanding(s standing) {
	if r.state != nil {
		r.state.history.standing = s
	}
}

// standingOf returns the standing of a key that the caller has taken from the queue.
func (c *Controller) standingOf(key object.Key) standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.keys[key]
	if gone := c.goneObjects.byKey[key]; len(gone) > 0 && (s == nil || s.uid != gone[0].state.uid) {
		s = gone[0].state
	}
	if s == nil || s.replaced {
		return notRun
	}
	return s.history.standing
}

func (r *run) faultReport() *FaultReport {
	report := &FaultReport{
		Time: time.Now().UTC(), Controller: r.c.Name, Object: r.item.Key.String(),
		Class: r.decision.Class, Reason: r.decision.Reason,
		Fuel: r.returned.Usage.Fuel, MemoryBytes: r.returned.Usage.MemoryBytes, Seconds: r.returned.Usage.Duration.Seconds(),
	}
	if r.guestFault != nil {
		report.Message, report.Stack = r.guestFault.Error(), r.guestFault.Stack
	}
	return report
}
