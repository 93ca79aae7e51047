package leaderelection

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/thole-dev/thole/host/with/leaderelection/election"
)

// collector is a [prometheus.Collector] of which Leases this replica leads.
type collector struct {
	status *prometheus.Desc
	leases func() []*election.Lease
}

func newCollector(leases func() []*election.Lease) collector {
	return collector{gauge("leader_election_master_status",
		"Lease of plugins: 1 while this replica leads them, 0 while another one may. None if there is one replica.", "name"), leases}
}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements [prometheus.Collector].
func (c collector) Describe(ch chan<- *prometheus.Desc) { ch <- c.status }

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, lease := range c.leases() {
		leads := 0.
		if lease.Leads() {
			leads = 1
		}
		ch <- prometheus.MustNewConstMetric(c.status, prometheus.GaugeValue, leads, lease.Name)
	}
}
