package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// usage is what a host uses while it is idle.
type usage struct {
	rss         float64 // MiB of VmRSS
	heap        float64 // MiB that the Go runtime has and has not returned to the system
	goroutines  float64
	descriptors float64 // open files
	informers   int
	guests      float64 // MiB of all instances and images
	instances   float64 // of all plugins
	busy        float64 // of these
	plugins     int
	controllers int
	queues      int
	children    int // processes
}

func (u usage) String() string {
	return fmt.Sprintf("RSS %.1f MiB, Go %.1f MiB, guests %.1f MiB; %v goroutines, %v descriptors, %d informers, "+
		"%v instances, %d plugins, %d controllers, %d queues, %d child processes",
		u.rss, u.heap, u.guests, u.goroutines, u.descriptors, u.informers,
		u.instances, u.plugins, u.controllers, u.queues, u.children)
}

// usageAfterGC returns the usage after two garbage collections: memory that the
// first one frees is returned to the system after the second one at the latest. The
// requests for metrics produce enough garbage to cause them.
func (p *process) usageAfterGC() (u usage) {
	p.tb.Helper()
	collections := func() float64 { return p.Metrics().Sum("go_gc_duration_seconds_count") }
	for until := collections() + 2; collections() < until; {
		must(p.tb, p.Exited())
	}
	u = p.usage()
	for range 20 { // memory is returned in the background
		<-time.After(50 * time.Millisecond)
		u.rss = min(u.rss, p.memoryMiB("VmRSS"))
	}
	return u
}

func (p *process) usage() usage {
	p.tb.Helper()
	m := p.Metrics()
	plugins, _ := p.Plugins()
	return usage{
		rss:         p.memoryMiB("VmRSS"),
		heap:        (m.Sum("go_memstats_sys_bytes") - m.Sum("go_memstats_heap_released_bytes")) / (1 << 20),
		goroutines:  m.Sum("go_goroutines"),
		descriptors: m.Sum("process_open_fds"),
		informers:   m.Count("thole_cache_objects"),
		guests:      m.Sum("thole_guest_memory_bytes") / (1 << 20),
		instances:   m.Sum("thole_sandbox_instances"),
		busy:        m.Sum("thole_sandbox_instances", "state", "busy"),
		plugins:     len(plugins),
		controllers: m.Count("controller_runtime_max_concurrent_reconciles"),
		queues:      m.Count("workqueue_depth"),
		children:    len(childrenOf(p.PID())),
	}
}

func childrenOf(pid int) (children []string) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		children = append(children, strings.Fields(string(text))...)
	}
	return children
}

// Differences between two measurements of an idle host that are no leak.
const (
	// Responses to this test, and connections to the API server: client-go may
	// replace an idle connection by a new one.
	extraGoroutines  = 4
	extraDescriptors = 2
	// A plugin has at most one instance per processor. Which of them have been used,
	// and how far their memory has grown, is chance.
	instanceMiB = .5
	// RSS varies by some MiB with the time at which memory is returned and with how
	// full pages are.
	extraRSS, extraMiB = .10, 12
)

// expectNoLeak waits until the host uses no more than before with the same plugins.
func (p *process) expectNoLeak(before usage) {
	p.tb.Helper()
	var now usage
	p.tb.Cleanup(func() { p.tb.Logf("after: %v", now) })
	instances := float64(before.plugins * runtime.GOMAXPROCS(0))
	await.Until(p.tb, "the host uses no more than before", func() bool {
		now = p.usage()
		return now.goroutines <= before.goroutines+extraGoroutines &&
			now.descriptors <= before.descriptors+extraDescriptors &&
			now.informers <= before.informers &&
			now.guests <= before.guests+instances*instanceMiB &&
			now.instances <= instances && now.busy == 0 && now.children == before.children &&
			now.plugins == before.plugins && now.controllers == before.controllers && now.queues == before.queues
	})
}

// expectMemory waits until the RSS of the host is at most that many MiB. It does
// nothing with the race detector, which keeps memory that was freed.
func (p *process) expectMemory(limit float64) {
	p.tb.Helper()
	if tholetest.RaceDetector {
		return
	}
	await.Until(p.tb, fmt.Sprintf("RSS is at most %.1f MiB", limit), func() bool {
		now := p.usageAfterGC()
		p.tb.Logf("now: %v", now)
		return now.rss <= limit
	})
}
