package dispatch

import (
	"errors"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/outcome"
)

// Fault is a call that the guest did not end as the ABI says.
type Fault struct {
	Class   abi.Class `json:"class"`
	Message string    `json:"message"`         // with the guest's last words
	Stack   []string  `json:"stack,omitempty"` // functions, innermost first, as far as they are known
}

func (f *Fault) Error() string { return f.Message }

// FaultReport is a run that the plugin itself failed.
type FaultReport struct {
	Time       time.Time `json:"time"`
	Controller string    `json:"controller"`
	Object     string    `json:"object"` // namespace/name
	Fault
	Usage
	Seconds float64 `json:"seconds"` // in the guest
}

// failed takes over why a call did not return.
func (r *run) failed(err error) {
	r.fault = &outcome.Fault{Class: abi.ClassRetry, Message: err.Error()}
	r.replaced = errors.Is(err, ErrClosed)
	if fault, ok := errors.AsType[*Fault](err); ok {
		r.broke = &Fault{Class: fault.Class, Message: fault.Message, Stack: bounded(fault.Stack)}
		r.fault.Class, r.fault.Message = fault.Class, fault.Message+Where(fault.Stack)
	}
}

// Bounds of what people are told of a stack: its names are the plugin's.
const (
	mostFrames  = 30
	mostNamed   = 5   // of them on the object
	longestName = 200 // bytes
)

func bounded(stack []string) []string {
	var out []string
	for _, name := range stack[:min(len(stack), mostFrames)] {
		out = append(out, strings.ToValidUTF8(name[:min(len(name), longestName)], ""))
	}
	return out
}

// Where tells the innermost functions of a stack that are the plugin's own, as
// the end of a message; "" if none is known. Those of the language's runtime
// around a panic say nothing.
func Where(stack []string) string {
	stack = bounded(stack)
	for len(stack) > 1 && strings.HasPrefix(stack[0], "runtime.") {
		stack = stack[1:]
	}
	if len(stack) == 0 {
		return ""
	}
	return "; in " + strings.Join(stack[:min(len(stack), mostNamed)], " < ")
}

// judge ends a run's pass by how the run ended.
func (r *run) judge(p *pass) {
	on := subject{r.c.Name, r.due.Key}
	switch {
	case r.uncounted:
		p.cancel()
	case outcome.PluginFault(r.decision.Class):
		p.report(on, r.blame(), r.usage.Time)
	case r.fault != nil: // the host's
		p.cancel()
	default:
		p.report(on, nil, r.usage.Time)
	}
}

// blame reports a run that the plugin itself failed.
func (r *run) blame() *FaultReport {
	fault := Fault{Class: r.decision.Class, Message: r.decision.Message}
	if r.broke != nil {
		fault = *r.broke
	}
	return &FaultReport{
		Time: time.Now().UTC(), Controller: r.c.Name, Object: r.due.Key.String(),
		Fault: fault, Usage: r.usage, Seconds: r.usage.Time.Seconds(),
	}
}
