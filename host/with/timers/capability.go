package timers

import (
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/timers"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
	"github.com/thole-dev/thole/host/with/timers/schedule"
)

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{
		Name:     contract.Name,
		Check:    contract.Check,
		Title:    "Timers",
		Describe: describe,
		New: func(runner.Environment) runner.Capability {
			return runner.Capability{Plugin: func(string) runner.PluginPart {
				return runner.PluginPart{Controller: func(runner.Handle) runner.ControllerPart {
					return runner.ControllerPart{Hooks: newController().hooks()}
				}}
			}}
		},
	}
}

// timersOf returns the timers of a controller.
func timersOf(c *abi.Controller) []contract.Timer {
	section := c.Section(contract.Name)
	if section == nil {
		return nil
	}
	all, _ := contract.Decode(section) // was checked
	return all
}

// controller runs the objects of a controller by its timers. The lock of the worker guards it.
type controller struct {
	followed time.Time // since when it runs objects by them
	revision *dispatch.Revision
	all      []contract.Timer // of revision
	without  int              // how many revisions had no timers
}

// state is that of one object.
type state struct {
	schedule.Timers
	without int // of the controller, when it was made
}

func newController() *controller { return &controller{followed: time.Now()} }

func (c *controller) hooks() dispatch.Hooks {
	return dispatch.Hooks{
		Begin: c.begin, Replaced: c.replaced,
		Deadline:  c.deadline,
		Suspended: func(s any) { s.(*state).Rest() },
		Requested: func(s any, at time.Time) { s.(*state).Changed(at) },
		Term:      func() { c.followed = time.Now() },
	}
}

// timers returns the timers of a revision.
func (c *controller) timers(rev *dispatch.Revision) []contract.Timer {
	if rev != c.revision {
		c.revision, c.all = rev, timersOf(&rev.Controller)
	}
	return c.all
}

// begin makes the run name the timers that are due. Those of an object that is being deleted rest for
// ever.
func (c *controller) begin(kept *any, run *dispatch.BeginningRun) {
	all := c.timers(run.Revision)
	if len(all) == 0 || run.Gone || run.Object.Deleting() {
		*kept = nil
		return
	}
	s, _ := (*kept).(*state)
	if s == nil || s.without != c.without {
		s = &state{schedule.New(run.Object.CreationTimestamp.Time, c.followed, run.Now), c.without}
		*kept = s
	}
	if due := s.Begin(all, c.followed, run.Now, mathrand.Float64()); len(due) > 0 {
		run.Sections = append(run.Sections, abi.Section{Name: contract.Name, Value: contract.EncodeDue(due)})
		run.Reasons = append(run.Reasons, abi.ReasonTimer)
	}
}

// deadline returns the time until the next timer is due, 0 if none is. The revision of the run may have been
// replaced by one without timers.
func (c *controller) deadline(kept any, decision *outcome.Decision, now time.Time) time.Duration {
	s := kept.(*state)
	switch {
	case s.without != c.without:
		return 0
	case decision == nil:
		return s.Until(now)
	}
	return s.End(decision, now, mathrand.Float64())
}

// replaced prepares the timers for another revision: what it changes or adds starts now.
func (c *controller) replaced(before, next *dispatch.Revision) {
	was, all := c.timers(before), c.timers(next)
	switch {
	case len(all) == 0:
		c.without++
	case !slices.Equal(was, all):
		c.followed = time.Now()
	}
}

// describe describes timers such as "probe 1m0s (first after 5s; idle for 30s; sharp)".
func describe(c *abi.Controller) string {
	var texts []string
	for _, t := range timersOf(c) {
		text := t.Name + " " + schedule.Milliseconds(t.Interval).String()
		var more []string
		if t.InitialDelay > 0 {
			more = append(more, "first after "+schedule.Milliseconds(t.InitialDelay).String())
		}
		if t.Idle > 0 {
			more = append(more, "idle for "+schedule.Milliseconds(t.Idle).String())
		}
		if t.Sharp {
			more = append(more, "sharp")
		}
		if more != nil {
			text += " (" + strings.Join(more, "; ") + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
