package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/thole-dev/thole/cmd/internal/child"
	"github.com/thole-dev/thole/cmd/internal/ending"
)

// errNotReady is the end of the time that the demo has.
var errNotReady = errors.New("the time is up")

// failure is an error with what a user needs to do something about it.
type failure struct {
	step   string // what was being done
	err    error
	facts  []string // lines that explain it
	log    string   // path of a log whose end explains it; "" if none does
	advice string   // what to do
	kept   string   // directory of the logs
}

func (f *failure) Error() string { return f.step + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failed explains why a step did not come to its end. The end of the demo's
// context explains more than what it has made of the step.
func (d *demo) failed(ctx context.Context, step string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	var died child.Ended
	f := &failure{step: step, err: err, kept: d.dir, advice: "read the logs, then try again: make demo"}
	switch explained := new(failure); {
	case errors.Is(err, ending.ErrInterrupted):
		f.kept, f.advice = "", ""
	case errors.As(err, &explained):
		f.err, f.facts, f.advice = explained.err, explained.facts, explained.advice
	case errors.Is(err, errNotReady):
		f.err = fmt.Errorf("not Ready %s after the start", d.timeout)
		f.facts = d.whyNotReady(context.WithoutCancel(ctx))
		if d.listen == "" && len(d.children) > 0 { // nothing to ask yet
			f.facts, f.log = nil, d.children[len(d.children)-1].Log
		}
	case errors.As(err, &died):
		f.log = died.Log
	}
	return f
}

// whyNotReady is everything that the host and the sample say.
func (d *demo) whyNotReady(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	facts := d.aboutSample()
	state, err := d.pluginState(ctx)
	fact := "plugin " + plugin + " is " + state.State
	switch {
	case err != nil:
		fact = "plugin " + plugin + ": " + err.Error()
	case state.Problem() != "":
		fact += ": " + state.Problem()
	}
	facts = append(facts, fact)
	for _, c := range d.complaints {
		facts = append(facts, "the host logged: "+c)
	}
	return facts
}

func (d *demo) aboutSample() []string {
	name := plugin + " " + d.sample.GetNamespace() + "/" + d.sample.GetName()
	if d.latest == nil {
		return []string{name + " was not seen yet"}
	}
	var facts []string
	for _, c := range conditions(d.latest) {
		facts = append(facts, name+" has "+c.String())
	}
	if len(facts) == 0 {
		return []string{name + " has no condition: it was not reconciled"}
	}
	return facts
}

// writeFailure tells the user what is in err, part by part.
func writeFailure(w io.Writer, err error) {
	var f *failure
	if !errors.As(err, &f) {
		fmt.Fprintf(w, "thole-demo: %v\n", err)
		return
	}
	fmt.Fprintf(w, "\nthole-demo: %v\n", err)
	facts := f.facts
	if f.log != "" {
		facts = append(facts, "the end of "+f.log+":")
		for _, l := range child.Tail(f.log) {
			facts = append(facts, "    "+l)
		}
	}
	for _, fact := range facts {
		fmt.Fprintln(w, "  "+fact)
	}
	if f.kept != "" {
		fmt.Fprintln(w, "  logs are in "+f.kept)
	}
	if f.advice != "" {
		fmt.Fprintln(w, "  what to do: "+strings.TrimSpace(f.advice))
	}
}
