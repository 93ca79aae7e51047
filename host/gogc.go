package host

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// This file decides how much the heap may grow until the garbage collector runs.

const (
	defaultGOGC = 100
	// smallHeap is the live heap up to which Go's default is kept.
	smallHeap = 64 << 20
	// tuneEvery is how often the live heap is looked at.
	tuneEvery = 15 * time.Second
)

// gogcFor returns by how many percent a live heap may grow: by 48 MiB and a quarter of it,
// or by all of it if it is small.
func gogcFor(live uint64) int {
	if live <= smallHeap {
		return defaultGOGC
	}
	return 25 + int(75*smallHeap/live)
}

// tuneCollector sets GOGC for the present size of the heap, until ctx is done. It does
// nothing if somebody else has set GOGC.
func tuneCollector(ctx context.Context) {
	if gogc() != defaultGOGC {
		return
	}
	defer debug.SetGCPercent(defaultGOGC)
	tick := time.NewTicker(tuneEvery)
	defer tick.Stop()
	for {
		if now := gogcFor(metric("/gc/heap/live:bytes")); now != gogc() { // to set it stops the world
			debug.SetGCPercent(now)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func gogc() int { return int(metric("/gc/gogc:percent")) }

// metric returns a metric of the Go runtime.
func metric(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
