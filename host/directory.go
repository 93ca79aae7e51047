package host

import (
	"maps"
	"sync"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
)

// directory implements [runner.Directory].
type directory struct{ h *Host }

func (d directory) Updated() bool { return d.h.catalog.Updated() }

func (d directory) Statuses() []catalog.Status { return d.h.catalog.Statuses() }

func (d directory) Status(plugin string) (status catalog.Status, known bool) {
	return d.h.catalog.Status(plugin)
}

func (d directory) Policy(plugin string) (policy config.Policy, known bool) {
	return d.h.policies.of(plugin)
}

func (d directory) Leads(plugin string) bool {
	if d.h.leaders == nil {
		return true
	}
	lead := d.h.leaders.Lead(plugin)
	return lead != nil && lead.Leads()
}

func (d directory) OthersLead(plugin string) bool {
	return d.h.leaders != nil && d.h.leaders.OthersLead(plugin)
}

// policies has the policy of each plugin whose file could be read last.
type policies struct {
	mu       sync.Mutex
	byPlugin map[string]config.Policy
}

// set replaces all.
func (p *policies) set(all map[string]config.Policy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byPlugin = maps.Clone(all)
}

func (p *policies) of(plugin string) (policy config.Policy, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	policy, known = p.byPlugin[plugin]
	return policy, known
}
