// Package podevents is the capability by which what happens to plugins is reported by Kubernetes Events on the pod
// that the host runs in, where `kubectl describe pod` shows them.
package podevents

import (
	"github.com/thole-dev/thole/host/kubeevents"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
)

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{Name: "podEvents", New: func(env runner.Environment) runner.Capability {
		if env.Pod == nil {
			return runner.Capability{}
		}
		// A queue of their own: behind 500 Events on objects they would be late.
		sender, err := kubeevents.New(env.Cluster, eventsPerSecond, eventsBurst, correlation)
		if err != nil { // the host has made one before, for the Events of plugins
			env.Logger.Error("there are no Events on the pod of the host", "error", err)
			return runner.Capability{}
		}
		o := &observer{sender, env.Pod}
		return runner.Capability{Observe: o.observe, Stop: sender.Stop}
	}}
}
