package changes

import (
	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/with/changes/handled"
)

// state is what is remembered of an object. The lock of the worker guards it. It is dropped when the replica begins
// to lead: another one may have handled the object.
type state struct {
	digest, account string // of the revision of the last run

	everWell  bool // a run has ended well, whatever the plugin was
	endedWell bool // a run has ended well since the code of the plugin was replaced
	ended     bool // a run has ended: its progress is then known here, too
	unhandled bool // the annotation has shown that no run has ended well

	progress []byte
	kept     *kept // the handled state in memory; nil if it is not known
	// content is a digest of the content which was handled, where the annotation should have it: somebody may
	// remove or edit that, and progress is not that of another one.
	content string
	// behind counts how often in a row a run had to wait for the events of the informer.
	behind int
}

// runState is what is remembered of a run until it has ended.
type runState struct {
	mode    contract.Mode
	handled handled.State // with which the run has begun
	resumed bool          // it is the first one of its kind
	kept    *kept         // of the state, and the object by which it can be told
	base    *object.Object

	since    string // a digest of the handled state by which the request states the change; "" in memory
	tooLarge bool   // the handled state is not copied into the annotation
	notKept  string // why the annotation is refused; "": it is not
}

// begin prepares what is remembered for a run.
func (c *controller) begin(has *any, run *dispatch.BeginningRun) {
	mode := contract.Of(&run.Revision.Controller)
	if mode == "" {
		*has = nil
		return
	}
	s, _ := (*has).(*state)
	if s == nil {
		s = &state{digest: run.Revision.Digest, account: run.Revision.Account}
		*has = s
	}
	s.begin(run.Revision)
	r := &runState{mode: mode, resumed: !s.endedWell}
	if mode == contract.Memory {
		r.handled = handled.State{Known: s.everWell || !run.Created, Whole: true, Progress: s.progress}
		r.base, _ = c.baseOf(s.kept, run)
		r.kept = s.kept
	} else {
		s.kept = nil
	}
	run.Kept, run.Prepare = r, c.prepare
}

// begin drops what does not count for a run of a revision, which is what another account has read.
func (s *state) begin(rev *dispatch.Revision) {
	switch {
	case s.account != rev.Account:
		*s = state{everWell: s.everWell}
	case s.digest != rev.Digest:
		s.endedWell = false
	}
	s.digest, s.account, s.behind = rev.Digest, rev.Account, 0
}

// prepare adds the change to the request.
func (c *controller) prepare(run *dispatch.BeginningRun) {
	r := run.Kept.(*runState)
	if r.mode == contract.Annotation {
		c.readAnnotation(run, r)
	} else if r.kept != nil {
		r.handled.Object = r.kept.of(r.base)
	}
	change := contract.Change{
		Type:     r.handled.Change(run.Object.Raw, run.Object.Deleting() || run.Gone, r.resumed),
		Progress: r.handled.Progress,
	}
	change.Old, _ = r.handled.Old(run.Object.Raw) // an error cannot happen for objects that were parsed
	run.Sections = append(run.Sections, abi.Section{Name: contract.Name, Value: change.Encode()})
}

// ended records what the next run of the object has to know of this one.
func (c *controller) ended(_ *dispatch.Revision, run dispatch.EndedRun) {
	r, _ := run.Kept.(*runState)
	if r == nil {
		return
	}
	content := r.since
	switch {
	case !run.EndedWell:
	case r.mode == contract.Annotation:
		content = r.contentOf(run.Given).WithoutObject().Digest
	default:
		c.keepHandled(run)
	}
	run.State(func(has any) {
		s := has.(*state)
		switch {
		case run.EndedWell:
			s.endedWell, s.everWell, s.ended, s.progress, s.content = true, true, true, nil, content
		case run.Performed: // what the guest notes as done is done
			s.ended, s.progress, s.content = true, progressOf(run.Returned), content
		}
	})
}

// progressOf returns the progress that a run has returned, nil for none.
func progressOf(result *abi.Result) []byte {
	section, err := contract.DecodeResult(result.Section(contract.Name))
	if err != nil { // was checked
		return nil
	}
	return section.Progress
}
