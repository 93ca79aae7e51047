package runner

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/dispatch"
)

// daemonSuffix is behind the name of a controller in the owners of what its daemons have read.
const daemonSuffix = "/daemon"

// daemonsOf returns what the daemons of a controller need, nil if it has none.
func (r *Runner) daemonsOf(rev *Revision, m *abi.Controller, p *plugin) *dispatch.DaemonConfig {
	if m.Daemon == nil {
		return nil
	}
	limits := rev.Policy.Limits
	return &dispatch.DaemonConfig{
		Guest:   rev.Guest,
		Reads:   controllerCache{cache: r.Cache, controller: rev.Plugin + "/" + m.Name + daemonSuffix, informers: &p.informers, indexes: &p.indexes, ownWrites: &p.ownWrites, written: &p.written},
		Running: &p.daemons, Number: limits.Daemons, Fuel: limits.DaemonFuel, StateBytes: limits.DaemonStateKiB << 10,
	}
}
