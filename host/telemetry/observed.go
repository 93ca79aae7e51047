package telemetry

import "github.com/prometheus/client_golang/prometheus"

// CacheStats is what the cache holds of one kind.
type CacheStats struct {
	Kind    string // apiVersion and kind
	Objects int
	Bytes   int // of JSON
}

// SandboxStats are the numbers of one plugin's running generation. Counters
// go back to zero with a new generation, as after a restart.
type SandboxStats struct {
	Plugin        string
	Calls, Faults uint64
	Idle, Busy    int    // instances
	IdleBytes     uint64 // memory of the idle instances
	Compiled      bool   // the native code is in memory
	Wakes         uint64 // how often it was brought back
}

// BreakerStats are the circuit breaker of one plugin.
type BreakerStats struct {
	Plugin   string
	State    string   // now, one of States
	States   []string // that there are
	Openings uint64   // since the plugin was added
}

// Observe makes the registry ask for numbers that are kept elsewhere, at each
// scrape.
func (m *Metrics) Observe(cache func() []CacheStats, sandbox func() []SandboxStats, breakers func() []BreakerStats) {
	m.Registry.MustRegister(observed{cache, sandbox, breakers})
}

// observed is a prometheus.Collector of what others count.
type observed struct {
	cache    func() []CacheStats
	sandbox  func() []SandboxStats
	breakers func() []BreakerStats
}

var (
	cacheObjects = prometheus.NewDesc("thole_cache_objects", "Objects in the cache by kind.", []string{"kind"}, nil)
	cacheBytes   = prometheus.NewDesc("thole_cache_bytes", "JSON in the cache by kind.", []string{"kind"}, nil)

	sandboxCalls     = prometheus.NewDesc("thole_sandbox_calls_total", "Reconcile calls of the running generation.", []string{"plugin"}, nil)
	sandboxFaults    = prometheus.NewDesc("thole_sandbox_faults_total", "Reconcile calls that the guest did not end as the ABI says: traps, deadlines, limits.", []string{"plugin"}, nil)
	sandboxInstances = prometheus.NewDesc("thole_sandbox_instances", "Instances by state: idle or busy.", []string{"plugin", "state"}, nil)
	sandboxMemory    = prometheus.NewDesc("thole_sandbox_idle_memory_bytes", "Linear memory of the idle instances.", []string{"plugin"}, nil)
	sandboxCompiled  = prometheus.NewDesc("thole_sandbox_compiled", "1 while the plugin's native code is in memory, 0 while it is idle and its code only in the cache.", []string{"plugin"}, nil)
	sandboxWakes     = prometheus.NewDesc("thole_sandbox_wakes_total", "Times that the running generation's native code was brought back from the cache for a call.", []string{"plugin"}, nil)

	breakerState    = prometheus.NewDesc("thole_breaker_state", "Circuit breaker of the plugin: 1 for the state that it is in, else 0.", []string{"plugin", "state"}, nil)
	breakerOpenings = prometheus.NewDesc("thole_breaker_openings_total", "Times that the plugin's circuit breaker opened.", []string{"plugin"}, nil)
)

func (o observed) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{cacheObjects, cacheBytes, sandboxCalls, sandboxFaults, sandboxInstances, sandboxMemory, sandboxCompiled, sandboxWakes, breakerState, breakerOpenings} {
		ch <- d
	}
}

func (o observed) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	for _, s := range o.cache() {
		gauge(cacheObjects, float64(s.Objects), s.Kind)
		gauge(cacheBytes, float64(s.Bytes), s.Kind)
	}
	for _, s := range o.sandbox() {
		counter(sandboxCalls, s.Calls, s.Plugin)
		counter(sandboxFaults, s.Faults, s.Plugin)
		gauge(sandboxInstances, float64(s.Idle), s.Plugin, "idle")
		gauge(sandboxInstances, float64(s.Busy), s.Plugin, "busy")
		gauge(sandboxMemory, float64(s.IdleBytes), s.Plugin)
		gauge(sandboxCompiled, boolean(s.Compiled), s.Plugin)
		counter(sandboxWakes, s.Wakes, s.Plugin)
	}
	for _, s := range o.breakers() {
		counter(breakerOpenings, s.Openings, s.Plugin)
		for _, state := range s.States {
			gauge(breakerState, boolean(state == s.State), s.Plugin, state)
		}
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
