package wasmtest

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/changes"
	"github.com/thole-dev/thole/abi/cloudevents"
	"github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/gauges"
	"github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/abi/receives"
	"github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/abi/timers"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/sandbox"
)

// capabilities are those that the SDK has, as their hosts have them.
func capabilities() []sandbox.Capability {
	asked := sandbox.Capability{Name: webhooks.Name, Check: webhooks.Check, CheckManifest: webhooks.CheckManifest}
	for _, export := range webhooks.Exports() {
		asked.Exports = append(asked.Exports, sandbox.Export{Name: export, Needed: webhooks.NeededFor(export), Imports: webhooks.Imports(export)})
	}
	return []sandbox.Capability{
		asked,
		{Name: cloudevents.Name, Check: cloudevents.Check},
		{Name: changes.Name, Check: changes.Check},
		{Name: timers.Name, Check: timers.Check},
		{Name: gauges.Name, Check: gauges.Check},
		{Name: receives.Name, Check: receives.Check},
		{Name: scans.Name, Check: scans.Check, Exports: []sandbox.Export{{Name: scans.Export}}},
		{Name: daemon.Name, Check: daemon.Check, Exports: []sandbox.Export{{Name: daemon.Export, Effects: true}}},
		{
			Name: functionindexes.Name, Check: functionindexes.Check, CheckManifest: functionindexes.CheckManifest,
			Exports: []sandbox.Export{{Name: functionindexes.Export, Imports: []string{}}},
			Imports: []sandbox.Import{{Name: functionindexes.Import, MaxMessage: abi.MaxCall}},
		},
		{Name: http.Name, Check: http.Check, Imports: []sandbox.Import{{Name: http.Import, MaxMessage: http.MaxMessage, HasEffects: true}}},
	}
}
