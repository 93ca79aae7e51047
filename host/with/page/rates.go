package page

import (
	"context"
	"sync"
	"time"
)

// rates keeps counters of the last minute.
type rates struct {
	mu      sync.Mutex
	samples []sample // the oldest first
}

type sample struct {
	at      time.Time
	numbers map[string]Numbers
}

// Samples are taken at this distance, and so many of them make a minute.
const (
	sampleEvery = 10 * time.Second
	maxSamples  = int(time.Minute/sampleEvery) + 1
)

// Rate is how often something happens, per second of the last minute at most.
type Rate struct{ Runs, Errors float64 }

// run takes samples until ctx is done.
func (r *rates) run(ctx context.Context, numbers func() (map[string]Numbers, error)) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		if n, err := numbers(); err == nil { // whoever asks for a page learns of an error
			r.add(sample{time.Now(), n})
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *rates) add(s sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples = append(r.samples, s)
	r.samples = r.samples[max(0, len(r.samples)-maxSamples):]
}

// until returns the rates of all controllers since the oldest sample. The counters of a controller that has
// been started since began at 0, as they do when it is started again.
func (r *rates) until(now sample) map[string]Rate {
	r.mu.Lock()
	var first sample
	if len(r.samples) > 0 {
		first = r.samples[0]
	}
	r.mu.Unlock()
	out := map[string]Rate{}
	seconds := now.at.Sub(first.at).Seconds()
	if first.numbers == nil || seconds < 1 {
		return out
	}
	for id, n := range now.numbers {
		before := first.numbers[id]
		if before.Runs > n.Runs {
			before = Numbers{}
		}
		out[id] = Rate{Runs: (n.Runs - before.Runs) / seconds, Errors: (n.Errors - before.Errors) / seconds}
	}
	return out
}
