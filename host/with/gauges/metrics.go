package gauges

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// collector is a [prometheus.Collector] of the gauges of all controllers that run.
type collector struct {
	objects *prometheus.Desc

	mu      sync.Mutex
	running map[*controller]bool
}

func newCollector() *collector {
	return &collector{running: map[*controller]bool{}, objects: gauge("thole_objects",
		"Primaries of the controller by the value of a field: empty for those without one, other for those beyond 32 values. Only from the replica that leads the plugin.",
		"plugin", "controller", "field", "value")}
}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func (all *collector) add(c *controller) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.running[c] = true
}

func (all *collector) remove(c *controller) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.running, c)
}

// Describe implements [prometheus.Collector].
func (all *collector) Describe(ch chan<- *prometheus.Desc) { ch <- all.objects }

// Collect implements [prometheus.Collector].
func (all *collector) Collect(ch chan<- prometheus.Metric) {
	all.mu.Lock()
	running := slices.Collect(maps.Keys(all.running))
	all.mu.Unlock()
	for _, c := range running {
		c.collect(ch, all.objects)
	}
}
