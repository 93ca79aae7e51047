// Package words is how the commands that follow a host put into words what it
// logs.
package words

import (
	"fmt"
	"strings"
	"time"
)

// What a host logs at the end of a reconcile.
const (
	Reconciled      = "reconciled"
	ReconcileWaits  = "reconcile waits"
	ReconcileFailed = "reconcile failed"
)

// What a host logs of a plugin.
const (
	PluginRuns    = "plugin runs"
	PluginWaits   = "plugin waits"
	PluginFails   = "plugin cannot run"
	PluginStopped = "plugin stopped"
	NewRefused    = "new generation refused, the last good one goes on"
	NewWaits      = "new generation waits, the last good one goes on"
	RolledBack    = "rolled back to the generation before, the new one does worse"
)

// What a host logs of itself.
const (
	HostStarts  = "host starts"
	HostStopped = "host stopped"
)

// Duration is as precise as people need it.
func Duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// OneLine is a text without line ends and repeated blanks.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
