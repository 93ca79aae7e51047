package host

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
)

func TestALargeHeapGrowsByLess(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 1 << 20: 100, 64 << 20: 100, 128 << 20: 62, 256 << 20: 43, 1 << 30: 29, 64 << 30: 25} {
		if got := gogcFor(live); got != want {
			t.Errorf("%d MiB: %d, want %d", live>>20, got, want)
		}
	}
	limit := func(live uint64) uint64 { return live + live/100*uint64(gogcFor(live)) }
	const step = 64 << 20
	for live := uint64(step); live < 4<<30; live += step {
		if limit(live) >= limit(live+step) {
			t.Errorf("a heap of %d MiB may grow to as much as one of %d", live>>20, (live+step)>>20)
		}
	}
}

func TestTheCollectorIsTunedWhileTheHostRuns(t *testing.T) {
	heap := make([]byte, 256<<20)
	runtime.GC()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tuneCollector(ctx)
	}()
	await.Until(t, "GOGC is lower", func() bool { return gogc() < 50 })
	cancel()
	<-ended
	if gogc() != defaultGOGC {
		t.Errorf("afterwards it is %d", gogc())
	}
	runtime.KeepAlive(heap)
}

func TestACollectorThatTheUserHasTunedIsLeftAlone(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(70))
	tuneCollector(t.Context()) // returns at once
	if gogc() != 70 {
		t.Errorf("it is %d", gogc())
	}
}
