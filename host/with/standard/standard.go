// Package standard is the list of the capabilities that thole has. A host without one is built by removing
// its line.
package standard

import (
	"github.com/thole-dev/thole/host/with"
	"github.com/thole-dev/thole/host/with/changes"
	"github.com/thole-dev/thole/host/with/cloudevents"
	"github.com/thole-dev/thole/host/with/daemon"
	"github.com/thole-dev/thole/host/with/functionindexes"
	"github.com/thole-dev/thole/host/with/gauges"
	"github.com/thole-dev/thole/host/with/http"
	"github.com/thole-dev/thole/host/with/leaderelection"
	"github.com/thole-dev/thole/host/with/page"
	"github.com/thole-dev/thole/host/with/podevents"
	"github.com/thole-dev/thole/host/with/receives"
	"github.com/thole-dev/thole/host/with/scans"
	"github.com/thole-dev/thole/host/with/timers"
	"github.com/thole-dev/thole/host/with/traces"
	"github.com/thole-dev/thole/host/with/webhooks"
)

// Capabilities returns them in the order in which a host calls their functions. cloudevents needs http, which bounds
// the hosts of sinks and has the client that sends to them. leaderelection is the first one that is stopped: others may
// take some time for it, and another replica is to lead meanwhile.
func Capabilities() with.List {
	return with.List{
		leaderelection.Capability(),
		timers.Capability(),
		changes.Capability(),
		scans.Capability(),
		gauges.Capability(),
		daemon.Capability(),
		functionindexes.Capability(),
		receives.Capability(),
		http.Capability(),
		cloudevents.Capability(),
		webhooks.Capability(),
		traces.Capability(),
		podevents.Capability(),
		page.Capability(),
	}
}
