package receive

import (
	"golang.org/x/time/rate"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Controller is a controller that runs; that of host/dispatch implements it.
type Controller interface {
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
	Name       string        // of the controller
	Controller Controller    // nil while it is being replaced
	Receives   []abi.Receive // from the manifest, at least one
	Primaries  object.Resource
	Leads      bool          // this replica leads the plugin
	Rate       *rate.Limiter // of the events of the plugin, which its controllers share
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
