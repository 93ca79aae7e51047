package page

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/runner"
)

// snapshot is everything that pages show, at one time. It is not changed after it was made.
type snapshot struct {
	At      time.Time
	Plugins []pluginView // by name
	Total   totals
	objects []objectView // of all plugins, in no order
}

// totals are numbers of one or more controllers.
type totals struct {
	Numbers
	Rate             Rate
	Rated            bool // there are rates
	Objects          int  // that have run
	Failing, Waiting int  // of Objects
}

type pluginView struct {
	runner.PluginStatus
	Total       totals
	Controllers []controllerView // that run, by name
}

type controllerView struct {
	Name  string
	Total totals
}

type objectView struct {
	dispatch.LastRun
	Plugin, Controller string
}

// Waits reports whether the object waits for something, which is no failure.
func (o *objectView) Waits() bool { return o.Failure != nil && o.Failure.Class == abi.ClassWaiting }

// Fails reports whether the latest run has failed.
func (o *objectView) Fails() bool { return o.Failure != nil && !o.Waits() }

// Bad reports whether somebody has to look at the plugin.
func (v pluginView) Bad() bool {
	switch v.State {
	case catalog.Waiting, catalog.Degraded, catalog.Quarantined, catalog.Failed:
		return true
	default:
		return v.Problem() != ""
	}
}

// Mean returns how long a run takes.
func (t totals) Mean() time.Duration {
	if t.Runs == 0 {
		return 0
	}
	return time.Duration(t.Seconds / t.Runs * float64(time.Second))
}

func (t *totals) add(o *totals) {
	t.Queued, t.Active, t.Workers = t.Queued+o.Queued, t.Active+o.Active, t.Workers+o.Workers
	t.Runs, t.Errors = t.Runs+o.Runs, t.Errors+o.Errors
	t.Seconds += o.Seconds
	t.Rate.Runs, t.Rate.Errors = t.Rate.Runs+o.Rate.Runs, t.Rate.Errors+o.Rate.Errors
	t.Rated = t.Rated || o.Rated
	t.Objects, t.Failing, t.Waiting = t.Objects+o.Objects, t.Failing+o.Failing, t.Waiting+o.Waiting
}

// collect makes a snapshot.
func (p *page) collect() (*snapshot, error) {
	numbers, err := p.numbers()
	if err != nil {
		return nil, err
	}
	s := &snapshot{At: time.Now()}
	byPlugin := s.controllers(numbers, p.rates.until(sample{s.At, numbers}), p.lastRuns())
	for _, plugin := range p.plugins() {
		view := pluginView{PluginStatus: plugin, Controllers: byPlugin[plugin.Name]}
		for _, c := range view.Controllers {
			view.Total.add(&c.Total)
		}
		s.Total.add(&view.Total)
		s.Plugins = append(s.Plugins, view)
	}
	return s, nil
}

// controllers joins what is known of each controller, by plugin, and adds the objects to the snapshot.
func (s *snapshot) controllers(numbers map[string]Numbers, rates map[string]Rate, runs map[string][]dispatch.LastRun) map[string][]controllerView {
	byPlugin := map[string][]controllerView{}
	for _, id := range slices.Sorted(maps.Keys(numbers)) {
		plugin, controller, _ := strings.Cut(id, "/")
		c := controllerView{controller, totals{Numbers: numbers[id], Rate: rates[id], Rated: len(rates) > 0}}
		for _, run := range runs[id] {
			o := objectView{run, plugin, controller}
			c.Total.count(&o)
			s.objects = append(s.objects, o)
		}
		byPlugin[plugin] = append(byPlugin[plugin], c)
	}
	return byPlugin
}

func (t *totals) count(o *objectView) {
	t.Objects++
	switch {
	case o.Waits():
		t.Waiting++
	case o.Fails():
		t.Failing++
	}
}

// plugin returns the view of a plugin, nil if there is none of that name.
func (s *snapshot) plugin(name string) *pluginView {
	at := slices.IndexFunc(s.Plugins, func(p pluginView) bool { return p.Name == name })
	if at < 0 {
		return nil
	}
	return &s.Plugins[at]
}

// where returns the objects for which a condition holds, in an order.
func (s *snapshot) where(holds func(*objectView) bool, order func(a, b *objectView) int) []*objectView {
	var out []*objectView
	for i := range s.objects {
		if o := &s.objects[i]; holds(o) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *objectView) int { return cmp.Or(order(a, b), byName(a, b)) })
	return out
}

// orders are those of objects, by the names that requests give them.
var orders = map[string]func(a, b *objectView) int{
	"failing": byFailure,
	"slowest": func(a, b *objectView) int { return cmp.Compare(b.Duration, a.Duration) },
	"latest":  func(a, b *objectView) int { return b.Ended.Compare(a.Ended) },
	"name":    func(a, b *objectView) int { return 0 },
}

// orderNames are those of orders, the default first.
var orderNames = []string{"failing", "slowest", "latest", "name"}

// byFailure has those first that fail, those before the others that have failed more often, and then those
// that wait.
func byFailure(a, b *objectView) int {
	rank := func(o *objectView) (kind, attempts int) {
		switch {
		case o.Fails():
			return 0, -o.Failure.Attempt
		case o.Waits():
			return 1, 0
		}
		return 2, 0
	}
	aKind, aAttempts := rank(a)
	bKind, bAttempts := rank(b)
	return cmp.Or(cmp.Compare(aKind, bKind), cmp.Compare(aAttempts, bAttempts))
}

func byName(a, b *objectView) int {
	return cmp.Or(a.Object.Compare(b.Object), cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Controller, b.Controller))
}

func badFirst(a, b pluginView) int {
	switch {
	case a.Bad() == b.Bad():
		return 0
	case a.Bad():
		return -1
	default:
		return 1
	}
}
