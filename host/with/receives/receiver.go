package receives

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"golang.org/x/time/rate"

	contract "github.com/thole-dev/thole/abi/receives"
	"github.com/thole-dev/thole/host/object"
)

// Controller is a controller that runs, as [runner.Handle] has it.
type Controller interface {
	// Resource is how the API server serves the primaries.
	Resource() object.Resource
	// MayWrite reports whether this replica leads the plugin.
	MayWrite() bool
	// Has reports whether there is a primary.
	Has(key object.Key) bool
	// Resolve returns the primaries that have a key of an index, in no order: most of them at the most.
	Resolve(index, key string, most int) ([]object.Key, error)
	// Signal makes a primary run with an event, as JSON. It reports whether there is one.
	Signal(key object.Key, given ...[]byte) bool
}

// Receiver is a controller that receives events.
type Receiver struct {
	Plugin     string
	Name       string             // of the controller
	Controller Controller         // nil while it is being replaced
	Receives   []contract.Receive // from the manifest, at least one
	Rate       *rate.Limiter      // of the events of the plugin, which its controllers share
}

// takes reports whether this replica runs the controller and leads its plugin.
func (r *Receiver) takes() bool { return r.Controller != nil && r.Controller.MayWrite() }

// receivers are those of the plugins that run.
type receivers struct {
	mu       sync.Mutex
	byPlugin map[string][]Receiver // a list is replaced, never changed
}

// all returns them in the order of their names.
func (r *receivers) all() []Receiver {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Concat(slices.Collect(maps.Values(r.byPlugin))...)
	slices.SortFunc(all, func(a, b Receiver) int {
		return cmp.Or(cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// knows reports whether it is known what a plugin receives: a revision of it runs.
func (r *receivers) knows(plugin string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.byPlugin[plugin]
	return known
}

// use replaces those of a plugin by those of another revision. The controllers that run are kept until they have
// ended. It reports whether there are any.
func (r *receivers) use(plugin string, all []Receiver) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range all {
		for _, before := range r.byPlugin[plugin] {
			if before.Name == all[i].Name {
				all[i].Controller = before.Controller
			}
		}
	}
	if r.byPlugin == nil {
		r.byPlugin = map[string][]Receiver{}
	}
	r.byPlugin[plugin] = all
	return len(all) > 0
}

// started notes that a controller runs.
func (r *receivers) started(plugin, name string, c Controller) {
	r.replace(plugin, func(one *Receiver) {
		if one.Name == name {
			one.Controller = c
		}
	})
}

// ended notes that a controller does not run any more.
func (r *receivers) ended(plugin string, c Controller) {
	r.replace(plugin, func(one *Receiver) {
		if one.Controller == c {
			one.Controller = nil
		}
	})
}

// replace replaces those of a plugin by changed ones.
func (r *receivers) replace(plugin string, change func(*Receiver)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.byPlugin[plugin])
	for i := range all {
		change(&all[i])
	}
	r.byPlugin[plugin] = all
}

// forget forgets a plugin that has stopped.
func (r *receivers) forget(plugin string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byPlugin, plugin)
}

// MaxBatch is how many events a batch may have. As many as that a plugin takes at once after a pause,
// however small its rate is.
const MaxBatch = 256

// NewRate returns the limiter of a plugin that may receive so many events in a second.
func NewRate(perSecond float64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), burst(perSecond))
}

// SetRate changes the limiter of a plugin.
func SetRate(l *rate.Limiter, perSecond float64) {
	l.SetLimit(rate.Limit(perSecond))
	l.SetBurst(burst(perSecond))
}

func burst(perSecond float64) int { return max(int(perSecond), MaxBatch) }
