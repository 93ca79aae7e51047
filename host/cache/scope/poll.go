package scope

import (
	"time"

	"github.com/thole-dev/thole/abi"
)

// defaultPollInterval is that of an entry that names none.
const defaultPollInterval = 30 * time.Second

// pollIntervals returns the shortest pollInterval of the entries of each kind.
func pollIntervals(m *abi.Manifest) map[abi.Kind]time.Duration {
	shortest := map[abi.Kind]time.Duration{}
	for i := range m.Controllers {
		for w := range m.Controllers[i].Follows() {
			interval := time.Duration(w.PollInterval) * time.Millisecond
			if interval == 0 {
				interval = defaultPollInterval
			}
			if before, ok := shortest[w.Kind]; !ok || interval < before {
				shortest[w.Kind] = interval
			}
		}
	}
	return shortest
}
