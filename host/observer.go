package host

import (
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/telemetry"
)

// observer passes what happens to plugins on to the metrics and to the host's
// pod; the catalog itself writes the log and what /plugins shows.
type observer struct {
	metrics *telemetry.Metrics
	pod     *podEvents
}

var _ catalog.Observer = observer{}

func (o observer) PluginStarted(g *catalog.Generation) {
	o.metrics.PluginStarted(g.Plugin, g.Manifest.Version, g.Digest)
	o.pod.PluginStarted(g)
}

func (o observer) PluginStopped(plugin string) { o.metrics.PluginStopped(plugin) }

func (o observer) PluginFailed(plugin, step string, err error, last *catalog.Generation) {
	o.metrics.PluginFailed(plugin, step)
	o.pod.PluginFailed(plugin, step, err, last)
}

func (o observer) PluginWaits(plugin, reason string) { o.pod.PluginWaits(plugin, reason) }

func (o observer) PluginRolledBack(from, to *catalog.Generation, reason string) {
	o.metrics.PluginRolledBack(from.Plugin)
	o.pod.PluginRolledBack(from, to, reason)
}
