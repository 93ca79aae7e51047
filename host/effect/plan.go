package effect

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// This file plans what is sent for a run, before any request.

// Planner decides what is sent for the runs of one plugin: as a function of what a run has decided, of the object
// and of what Store holds. It has no client. A [Performer] sends what it plans.
type Planner struct {
	Plugin string // a DNS label
	Store  Store
	Logger hclog.Logger
	// Allow are the entries of the plugin's policy. Objects outside of the namespace of a
	// namespaced primary cannot be owned.
	Allow rights.Entries
	// Namespaces are those in which the plugin may change objects, of which its
	// primaries are some; nil for all. Cluster-scoped objects are not affected.
	Namespaces []string
	// Managed labels what the plugin owns [abi.LabelManagedBy].
	Managed bool
	Now     func() time.Time // default time.Now
}

// Target is the primary of a run and the controller that it runs for.
type Target struct {
	Controller *abi.Controller
	// Object is the primary as the guest was given it or, after an effect that
	// wrote it, as the API server returned it.
	Object *object.Object
	// Gone is set if the primary does not exist any more: it can own nothing.
	Gone bool
	// NoOutage is set if a write of the last run was answered with the code 500, the API server has
	// answered a read for this run, and no run of the last minute has found out that it is an outage all
	// the same. Another 500 is then no outage.
	NoOutage bool
	// Cleanup is set beside Gone if the run is the cleanup. What cannot be done for an object that
	// is gone then ends it: no later run can do it.
	Cleanup bool
}

// plan is what one result asks for, checked against the manifest, the policy and the namespace of the primary.
type plan struct {
	*Planner
	target  Target
	labels  bool // what is owned is labelled
	named   map[objectID]bool
	disowns []location
	applies []plannedApply
	deletes []plannedDelete
}

// check checks every intent of a result. A failure ends the call before anything is sent.
func (p *plan) check(ctx context.Context, planner *Planner, t Target, result *abi.Result, labels bool) *Failure {
	p.Planner, p.target, p.labels = planner, t, labels
	p.named = make(map[objectID]bool, len(result.Release)+len(result.Apply)+len(result.Delete))
	for _, ref := range result.Release {
		at, err := p.planDisown(ctx, ref)
		if err != nil {
			return failed(abi.VerbRelease, ref, err)
		}
		p.disowns = append(p.disowns, at)
	}
	for _, intent := range result.Apply {
		a, ref, err := p.planApply(ctx, intent)
		if failure := a.setGroup(intent.Group, abi.VerbApply, ref, err); failure != nil {
			return failure
		}
		p.applies = append(p.applies, a)
	}
	for _, d := range result.Delete {
		planned, err := p.planDelete(ctx, d)
		if failure := planned.setGroup(d.Group, abi.VerbDelete, d.Ref, err); failure != nil {
			return failure
		}
		p.deletes = append(p.deletes, planned)
	}
	return nil
}

// maxManager is the API server's limit of a field manager's name, in bytes.
const maxManager = 128

// manager returns the field manager of a controller, which it uses for primaries
// and the objects that they own. Two DNS labels of full length do not fit; a name
// that is too long ends in a digest instead.
func (p *Planner) manager(c *abi.Controller) string {
	return limit(object.ManagerPrefix+p.Plugin+"/"+c.Name, maxManager)
}

// limit returns a name of at most so many bytes.
func limit(name string, most int) string {
	if len(name) <= most {
		return name
	}
	tail := "-" + sumStrings(name).String()[:8]
	return name[:most-len(tail)] + tail
}
