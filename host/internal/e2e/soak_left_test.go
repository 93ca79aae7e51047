package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/thole-dev/thole/host/internal/await"
)

// soakRest is what a host has while it has nothing to do.
type soakRest struct {
	rss         float64 // MiB, of VmRSS
	heap        float64 // MiB that Go uses of it, not what it could give back
	goroutines  float64
	descriptors float64
	kinds       float64 // informers
	guests      float64 // MiB of all instances and images
	instances   float64 // of all running plugins
	busy        float64 // of them
	plugins     int
	controllers float64
	queues      float64
	compilers   int // child processes
}

func (r soakRest) String() string {
	return fmt.Sprintf("RSS %.1f MiB, Go's part %.1f MiB, guests %.1f MiB; %v goroutines, %v descriptors, %v informers, %v instances, %d plugins, %v controllers, %v queues, %d children",
		r.rss, r.heap, r.guests, r.goroutines, r.descriptors, r.kinds, r.instances, r.plugins, r.controllers, r.queues, r.compilers)
}

// rest looks at the host when its garbage has been collected twice: what
// became garbage is found by the first, and returned to the system after the
// second at the latest. Each answer makes some.
func (p *process) rest() (r soakRest) {
	p.t.Helper()
	collections := func() float64 { return p.Metric("go_gc_duration_seconds_count") }
	for until := collections() + 2; collections() < until; {
		if err := p.Died(); err != nil {
			p.t.Fatal(err)
		}
	}
	r = p.now()
	// What Go does not need is returned in the background.
	for range 20 {
		<-time.After(50 * time.Millisecond)
		r.rss = min(r.rss, p.residentMiB())
	}
	return r
}

func (p *process) now() soakRest {
	p.t.Helper()
	_, text := p.Ask("/metrics")
	m := metrics(text)
	all, _ := p.Plugins()
	return soakRest{
		rss:         p.residentMiB(),
		heap:        (m.sum("go_memstats_sys_bytes") - m.sum("go_memstats_heap_released_bytes")) / (1 << 20),
		goroutines:  m.sum("go_goroutines"),
		descriptors: m.sum("process_open_fds"),
		kinds:       m.count("thole_cache_objects"),
		guests:      m.sum("thole_guest_memory_bytes") / (1 << 20),
		instances:   m.sum("thole_sandbox_instances"),
		busy:        m.sum("thole_sandbox_instances", `state="busy"`),
		plugins:     len(all),
		controllers: m.count("controller_runtime_max_concurrent_reconciles"),
		queues:      m.count("workqueue_depth"),
		compilers:   len(childrenOf(p.PID())),
	}
}

// residentMiB is how much memory the process has.
func (p *process) residentMiB() float64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	done(p.t, err)
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kib float64
	_, err = fmt.Sscanf(rest, "%f kB", &kib)
	done(p.t, err)
	return kib / 1024
}

func childrenOf(pid int) (children []string) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		children = append(children, strings.Fields(string(text))...)
	}
	return children
}

// count is how many series a metric has.
func (m metrics) count(name string) (n float64) {
	for line := range strings.Lines(string(m)) {
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			n++
		}
	}
	return n
}

// What is counted twice at rest is not always the same.
const (
	// Answers to this test, and connections to the API server: client-go gives
	// up one that was idle for a new one.
	moreGoroutines  = 4
	moreDescriptors = 2
	// A plugin has at most one instance for each processor; which of them have
	// been used, and how far their memory grew, is chance.
	instanceMiB = .5
	// Of one process at rest RSS varies by some MiB: when what was collected
	// is returned, and how full the pages are.
	moreRSS, moreMiB = .10, 12
)

// expectNothingLeft waits until the host has no more than before, with the same
// plugins.
func (p *process) expectNothingLeft(before soakRest) {
	p.t.Helper()
	var now soakRest
	p.t.Cleanup(func() { p.t.Logf("after: %v", now) })
	most := float64(before.plugins * runtime.GOMAXPROCS(0))
	await.Until(p.t, "nothing more is there than before", func() bool {
		now = p.now()
		return now.goroutines <= before.goroutines+moreGoroutines &&
			now.descriptors <= before.descriptors+moreDescriptors &&
			now.kinds <= before.kinds &&
			now.guests <= before.guests+most*instanceMiB &&
			now.instances <= most && now.busy == 0 && now.compilers == before.compilers &&
			now.plugins == before.plugins && now.controllers == before.controllers && now.queues == before.queues
	})
}

// expectFlat waits until the host has hardly more memory than it had. The race
// detector remembers what was, so with it nothing is expected.
func (p *process) expectFlat(before soakRest) {
	p.t.Helper()
	if raceDetector {
		return
	}
	var now soakRest
	await.Until(p.t, fmt.Sprintf("memory is as before: %v", before), func() bool {
		now = p.rest()
		p.t.Logf("memory now: %v", now)
		return now.rss <= before.rss*(1+moreRSS)+moreMiB
	})
}
