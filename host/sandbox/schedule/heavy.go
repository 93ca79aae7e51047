package schedule

import "time"

// Calls that end within a quantum can hold all slots too, one after the other.
// So the calls of a plugin that uses much count as long from their beginning
// on: whoever uses little finds a slot at once beside them.

// memory is for about how long slot time that was used counts as a plugin's
// load. A slot used all the time is a load of memory.
const memory = 100 * time.Millisecond

// Heavy is a plugin with a load of more than light, unless it is less than an
// aside-th of the heaviest one's: a machine that is busy with other things
// makes everybody's calls longer, and those of a light plugin must not pay for it.
const (
	light = memory / 4
	aside = 2
)

// aloneAfter is for how long no other plugin has begun a call when the last
// one has all slots: there is nobody for whom to leave one.
const aloneAfter = 10 * time.Second

// charge puts slot time on a plugin's accounts.
func (s *Scheduler) charge(p *Plugin, used time.Duration, now time.Time) {
	p.used = s.account(p) + used
	s.most = max(s.most, p.used)
	p.load, p.loaded = p.loadAt(now)+used, now
	if s.heaviest == nil || p.load > s.heaviest.loadAt(now) {
		s.heaviest = p
	}
}

// account is what counts of the time that p has used.
func (s *Scheduler) account(p *Plugin) time.Duration {
	return max(p.used, s.most-credit*s.quantum)
}

// loadAt is what is left of the plugin's load.
func (p *Plugin) loadAt(now time.Time) time.Duration {
	left := memory - now.Sub(p.loaded)
	if left <= 0 {
		return 0
	}
	return time.Duration(float64(p.load) * float64(left) / float64(memory))
}

func (s *Scheduler) heavy(p *Plugin, now time.Time) bool {
	load := p.loadAt(now)
	return load > light && load >= s.heaviest.loadAt(now)/aside
}

// began notes who has begun a call.
func (s *Scheduler) began(p *Plugin, now time.Time) {
	if p != s.last {
		s.last, s.switched = p, now
	}
}

// mostLong is how many slots long calls may hold: all but one, unless there
// is only one, or nobody for whom to leave it.
func (s *Scheduler) mostLong(now time.Time) int {
	if s.slots == 1 || now.Sub(s.switched) > aloneAfter {
		return s.slots
	}
	return s.slots - 1
}
