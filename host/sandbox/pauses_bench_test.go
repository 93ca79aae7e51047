package sandbox

import (
	"runtime/metrics"
	"testing"
)

// pauses counts how long the garbage collector waited for the goroutines to
// stop, by the limits of a histogram in seconds.
type pauses struct {
	limits []float64
	counts []uint64
}

func readPauses() pauses {
	sample := []metrics.Sample{{Name: "/sched/pauses/stopping/gc:seconds"}}
	metrics.Read(sample)
	h := sample[0].Value.Float64Histogram()
	return pauses{limits: h.Buckets[1:], counts: h.Counts}
}

// add takes in what there was between two readings.
func (p *pauses) add(before, after pauses) {
	if p.counts == nil {
		p.limits, p.counts = after.limits, make([]uint64, len(after.counts))
	}
	for i := range p.counts {
		p.counts[i] += after.counts[i] - before.counts[i]
	}
}

func (p *pauses) report(b *testing.B) {
	var total, seen uint64
	for _, n := range p.counts {
		total += n
	}
	if total == 0 {
		return
	}
	for i, n := range p.counts {
		if seen += n; seen*100 >= total*99 {
			b.ReportMetric(p.limits[i]*1e6, "gc-stop-µs")
			return
		}
	}
}
