package election

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
)

// Plugin is a plugin that this replica leads if it leads its Lease, and no other replica claims
// the plugin by another Lease: see claims.go.
type Plugin struct {
	Name  string
	Lease *Lease

	mu      sync.Mutex
	active  bool          // this is the Lease of the plugin by its policy
	open    bool          // the replica led it when that was looked at last, and has led the Lease since
	leading chan struct{} // closed while it is open
	ended   chan struct{} // closed when it has ceased to be open
	yields  bool          // it is not claimed, since another replica claims it by a Lease that comes first
	other   string        // the replica that claims it by another Lease, "" for none
	writes  int           // requests on their way
}

// place is a Lease that a plugin may have.
type place struct {
	plugin string
	own    bool
}

// The names of Leases are that of the election, one of these, and a number or a plugin.
const (
	shardInfix  = "-shard-"
	pluginInfix = "-plugin-"
)

func (e *Election) leaseOf(at place) string {
	if at.own {
		return e.Name + pluginInfix + at.plugin
	}
	hash := fnv.New32a()
	hash.Write([]byte(at.plugin))
	return fmt.Sprintf("%s%s%d", e.Name, shardInfix, hash.Sum32()%uint32(e.Shards))
}

// Of returns the part of this replica in who leads a plugin, by the Lease of its shard or, with
// own, by one of its own. By the other one it is not led here any more.
func (e *Election) Of(plugin string, own bool) *Plugin {
	defer e.kick()
	e.mu.Lock()
	defer e.mu.Unlock()
	at := place{plugin, own}
	p := e.plugins[at]
	if p == nil {
		p = &Plugin{Name: plugin, Lease: e.join(e.leaseOf(at)), leading: make(chan struct{}), ended: make(chan struct{})}
		e.plugins[at] = p
	}
	if before := e.plugins[place{plugin, !own}]; before != nil {
		before.deactivate()
	}
	p.mu.Lock()
	p.active = true
	p.mu.Unlock()
	return p
}

// Keep forgets the plugins for which known returns false.
func (e *Election) Keep(known func(plugin string) bool) {
	defer e.kick()
	e.mu.Lock()
	defer e.mu.Unlock()
	for at, p := range e.plugins {
		if known(at.plugin) {
			continue
		}
		if p.deactivate(); p.sends() == 0 { // else it is forgotten next time
			delete(e.plugins, at)
		}
	}
}

// PluginsOf returns the plugins that have a Lease by their policies.
func (e *Election) PluginsOf(lease *Lease) []*Plugin {
	return slices.DeleteFunc(e.pluginsWith(lease), func(p *Plugin) bool { return !p.isActive() })
}

// pluginsWith returns the plugins that have a Lease, or had it.
func (e *Election) pluginsWith(lease *Lease) (all []*Plugin) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.plugins {
		if p.Lease == lease {
			all = append(all, p)
		}
	}
	return all
}

// Plugin returns a plugin by the Lease that it has by its policy, nil if it is not known.
func (e *Election) Plugin(name string) *Plugin {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, own := range []bool{false, true} {
		if p := e.plugins[place{name, own}]; p != nil && p.isActive() {
			return p
		}
	}
	return nil
}

// Leading returns a channel that is closed if the replica leads the plugin. It is another one
// after it has ceased to.
func (p *Plugin) Leading() <-chan struct{} {
	leading, _ := p.Term()
	return leading
}

// Term returns a channel that is closed while the replica leads the plugin, and one that is
// closed when it has ceased to. They are of the present term, or the next one.
func (p *Plugin) Term() (leading, ended <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leading, p.ended
}

// Leads reports whether the replica leads the plugin and may write.
func (p *Plugin) Leads() bool { return p.Check() == nil }

// Check returns an error, which is [ErrNotLeading], if the replica may not write for the plugin.
func (p *Plugin) Check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.check()
}

// check is Check; p.mu is held.
func (p *Plugin) check() error {
	if !p.open {
		return ErrNotLeading
	}
	return p.Lease.Check()
}

// Leader returns the replica that leads the plugin, as far as this one knows; "" if none does.
func (p *Plugin) Leader() string {
	p.mu.Lock()
	other := p.other
	p.mu.Unlock()
	if other != "" {
		return other
	}
	return p.Lease.Holder()
}

// BeginWrite is called before a request that changes something is sent for the plugin, and end
// when it was answered. The request must not be sent if it returns an error, which is
// [ErrNotLeading]. What was begun ends before the Lease is given to another replica.
func (p *Plugin) BeginWrite() (end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check(); err != nil {
		return nil, err
	}
	p.writes++
	return p.endWrite, nil
}

func (p *Plugin) endWrite() {
	p.mu.Lock()
	p.writes--
	last := p.writes == 0 && !p.open
	p.mu.Unlock()
	if last {
		p.Lease.e.kick()
	}
}

func (p *Plugin) isActive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.active
}

// sends returns how many requests are on their way.
func (p *Plugin) sends() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

func (p *Plugin) deactivate() {
	p.mu.Lock()
	p.active, p.other, p.yields = false, "", false
	p.mu.Unlock()
	p.close()
}

// close ends that the replica leads the plugin. Requests may still be on their way.
func (p *Plugin) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open {
		close(p.ended)
		p.open, p.leading, p.ended = false, make(chan struct{}), make(chan struct{})
	}
}

// isClaimed reports whether the plugin belongs into the claims of its Lease.
func (p *Plugin) isClaimed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.active && !p.yields || p.writes > 0
}

// look finds out whether the replica leads the plugin. It returns the names of the Leases by
// which other replicas claim it, if that is the reason why not.
func (p *Plugin) look(v *view) (blocking []string) {
	leads := p.Lease.Leads()
	rejected := leads && p.Lease.e.Rejected != nil && p.Lease.e.Rejected(p.Name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open || !p.active {
		return nil
	}
	p.other, p.yields = "", false
	if !leads {
		return nil
	}
	for _, other := range v.others()[p.Name] {
		if other.Name == p.Lease.Name {
			continue // it is outdated
		}
		p.other = holder(other)
		p.yields = p.yields || other.Name < p.Lease.Name
		blocking = append(blocking, other.Name)
	}
	if p.other == "" && !rejected && p.Lease.hasClaimed(p.Name, v.leases[p.Lease.Name]) {
		p.open = true
		close(p.leading)
	}
	return blocking
}
