package runner

import (
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/dispatch"
)

// scansOf returns what the scans of a controller need, nil if it has none.
func (r *Runner) scansOf(rev *Revision, m *abi.Controller) *dispatch.ScanConfig {
	if len(m.Scans) == 0 {
		return nil
	}
	scans := &dispatch.ScanConfig{Guest: rev.Guest, Metrics: map[string]dispatch.ScanMetrics{}}
	for _, s := range m.Scans {
		scans.Metrics[s.Name] = r.Metrics.Scan(rev.Plugin, m.Name, s.Name, dispatch.ScanInterval(s))
	}
	return scans
}

// removeScans removes the metrics of the scans of a controller that another revision does not have. A scan
// in progress may end later.
func (r *Runner) removeScans(plugin string, before *abi.Controller, kept []abi.Scan) {
	for _, s := range before.Scans {
		if !slices.ContainsFunc(kept, func(other abi.Scan) bool { return other.Name == s.Name }) {
			r.Metrics.ScanStopped(plugin, before.Name, s.Name)
		}
	}
}
