package effect

import (
	"strings"

	"github.com/thole-dev/thole/abi"
)

// events emits the guest's events of one run, best effort. One that the run
// before had too is not repeated.
func (s *session) events(events []abi.Event) {
	said := make(map[digest]bool, len(events))
	for _, e := range events {
		d := sumEvent(e)
		if !s.memo.events[d] && !said[d] {
			s.emit(s.target, e)
		}
		said[d] = true
	}
	s.memo.events = said
}

// Event emits what the host has to say about a run, nil if nothing. It is
// called once per run: what the host said of the run before is not repeated.
func (p *Performer) Event(t Target, e *abi.Event) {
	if e == nil {
		p.memory.unsay(t.memo())
		return
	}
	memo, said := p.memory.of(t.memo()), sumEvent(*e)
	if memo.said != said {
		p.emit(t, *e)
	}
	memo.said = said
}

func (p *Performer) emit(t Target, e abi.Event) {
	if p.DryRun {
		p.Logger.Info("dry run: would emit event", "about", describe(t.Object.Kind, t.Object.Key()), "type", e.Type, "reason", e.Reason, "message", e.Message)
		return
	}
	// Cloned: recorders keep messages for a while, and this one is part of a
	// result that may be much longer.
	p.Recorder.Event(t.Object, e.Type, strings.Clone(e.Reason), strings.Clone(e.Message))
}

func sumEvent(e abi.Event) digest { return sumStrings(e.Type, e.Reason, e.Message) }
