package runner

import (
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
)

// Leaders decides which replica of the host leads which plugin: only that one runs it, and the others keep it ready.
// Its functions are called once [Capability].Start has returned, and may be called concurrently.
type Leaders interface {
	catalog.Replicas
	// Join takes part in the decision about a plugin with that policy, and returns the part of this replica. It is
	// called before each attempt to start a revision. The plugin starts anew if it gets another [Lead] than before.
	Join(plugin string, policy config.Policy) (Lead, error)
	// Lead returns what Join has returned last, nil if it has not been called for the plugin, or if that is gone.
	Lead(plugin string) Lead
	// OthersLead reports whether another replica leads a plugin, or may.
	OthersLead(plugin string) bool
	// RetryRefused lets modules that were rolled back run again, of the plugins that this replica leads.
	RetryRefused()
}

// Lead is the part of this replica in who leads a plugin. Its functions do not block.
type Lead interface {
	dispatch.Lease
	effect.Lease
	// Term returns a channel that is closed while the replica leads the plugin, as Leading does, and one that is closed
	// when it has ceased to. They are of the present term, or the next one.
	Term() (leading, ended <-chan struct{})
	// Leader returns the replica that leads the plugin, as far as this one knows; "" if none does.
	Leader() string
}

// join returns the part of this replica in who leads a plugin, nil if there is one replica.
func (r *Runner) join(rev *Revision) (Lead, error) {
	if r.Leaders == nil {
		return nil, nil
	}
	return r.Leaders.Join(rev.Plugin, rev.Policy)
}
