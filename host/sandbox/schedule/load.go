package schedule

import "time"

// This file accounts for the use of slots, by plugin: in all, which decides
// which plugin is served next, and recently, which decides which plugins are
// heavy. Calls that end within a quantum can hold all slots too, one after the
// other. So the calls of a heavy plugin count as long from their beginning, and
// a plugin that uses little finds a free slot beside them.

// credit is how many quanta a plugin may use ahead of the one that has used
// most. Without this bound, a plugin that was idle for an hour could keep the
// others waiting for an hour.
const credit = 10

// loadWindow is about how long used slot time counts as load. A plugin that
// holds one slot all the time has a load of loadWindow.
const loadWindow = 100 * time.Millisecond

// A plugin is heavy if its load is above lightLoad and at least the
// heavyFactor-th part of the highest load. The second condition is for a
// machine that is busy with other things: it makes the calls of all plugins
// longer, and a plugin that is light in comparison must not pay for that.
const (
	lightLoad   = loadWindow / 4
	heavyFactor = 2
)

// aloneAfter is how long no other plugin must have begun a call until the last
// one may hold all slots.
const aloneAfter = 10 * time.Second

// charge adds slot time to a plugin's accounts.
func (s *Scheduler) charge(p *Plugin, used time.Duration, now time.Time) {
	p.used = s.accountable(p) + used
	s.mostUsed = max(s.mostUsed, p.used)
	p.load, p.loadAsOf = p.loadAt(now)+used, now
	if s.heaviest == nil || p.load > s.heaviest.loadAt(now) {
		s.heaviest = p
	}
}

// accountable returns the slot time that p has used, raised such that p has no
// more than credit.
func (s *Scheduler) accountable(p *Plugin) time.Duration {
	return max(p.used, s.mostUsed-credit*s.quantum)
}

// loadAt returns the plugin's load, which decreases linearly with time.
func (p *Plugin) loadAt(now time.Time) time.Duration {
	left := loadWindow - now.Sub(p.loadAsOf)
	if left <= 0 {
		return 0
	}
	return time.Duration(float64(p.load) * float64(left) / float64(loadWindow))
}

func (s *Scheduler) heavy(p *Plugin, now time.Time) bool {
	load := p.loadAt(now)
	return load > lightLoad && load >= s.heaviest.loadAt(now)/heavyFactor
}

// noteBegin notes which plugin begins a call.
func (s *Scheduler) noteBegin(p *Plugin, now time.Time) {
	if p != s.lastBegun {
		s.lastBegun, s.changed = p, now
	}
}

// maxLong returns how many slots long calls may hold: all but one, unless there
// is only one slot or only one plugin.
func (s *Scheduler) maxLong(now time.Time) int {
	if s.slots == 1 || now.Sub(s.changed) > aloneAfter {
		return s.slots
	}
	return s.slots - 1
}
