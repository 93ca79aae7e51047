package scope

import (
	"time"

	"github.com/thole-dev/thole/abi"
)

// DefaultPollInterval is the time between two lists of a kind for which nobody asks for another one.
const DefaultPollInterval = 30 * time.Second

// pollIntervals returns the shortest pollInterval of the entries of each kind.
func pollIntervals(m *abi.Manifest) map[abi.Kind]time.Duration {
	shortest := map[abi.Kind]time.Duration{}
	for i := range m.Controllers {
		for w := range m.Controllers[i].Follows() {
			interval := time.Duration(w.PollInterval) * time.Millisecond
			if interval == 0 {
				interval = DefaultPollInterval
			}
			if before, ok := shortest[w.Kind]; !ok || interval < before {
				shortest[w.Kind] = interval
			}
		}
	}
	return shortest
}
