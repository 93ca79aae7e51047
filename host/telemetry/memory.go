package telemetry

import "github.com/prometheus/client_golang/prometheus"

// MemoryStats are the numbers of the memory that all plugins share.
type MemoryStats struct {
	LimitBytes uint64 // they may have together
	UsedBytes  uint64 // they have: their instances and images
	Refused    uint64 // times that one got no more for it
}

// ObserveMemory makes the registry ask for the numbers at each scrape.
func (m *Metrics) ObserveMemory(read func() MemoryStats) {
	m.Registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "thole_guest_memory_limit_bytes",
			Help: "Memory that the instances and images of all plugins may have together.",
		}, func() float64 { return float64(read().LimitBytes) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "thole_guest_memory_bytes",
			Help: "Memory that the instances and images of all plugins have.",
		}, func() float64 { return float64(read().UsedBytes) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "thole_guest_memory_refusals_total",
			Help: "Growths and new instances that were refused because all plugins together had what they may have.",
		}, func() float64 { return float64(read().Refused) }),
	)
}
