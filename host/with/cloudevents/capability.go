package cloudevents

import (
	"context"
	"fmt"
	"sync"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/cloudevents"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
	"github.com/thole-dev/thole/host/with/http/egress"
)

// Names of what is reported.
const (
	// eventDropped reports that a sink did not get events: once a minute for all of a reason since then, and
	// when the plugin has stopped or its policy has the sink no more.
	eventDropped  = "CloudEventsDropped"
	reasonDropped = "EventsDropped" // CloudEvents that a sink did not get
)

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{
		Name:   contract.Name,
		Check:  contract.Check,
		Policy: func() config.PolicySection { return &Settings{} },
		Title:  "CloudEvents",
		Describe: func(c *abi.Controller) string {
			if !publishes(c) {
				return ""
			}
			return "of each change and of the end of each run"
		},
		New: newCapability,
	}
}

// capability publishes the events of the plugins of a host.
type capability struct {
	runner.Environment
	metrics metrics
	closing sync.WaitGroup // of plugins that have stopped
}

func newCapability(env runner.Environment) runner.Capability {
	c := &capability{Environment: env, metrics: newMetrics(env.Metrics)}
	return runner.Capability{Plugin: c.plugin, Stop: c.closing.Wait}
}

// plugin publishes the events of one plugin.
func (c *capability) plugin(name string) runner.PluginPart {
	p := New(Config{
		Plugin:  name,
		Metrics: func(sink string) Metrics { return c.metrics.of(name, sink) },
		Dropped: func(d Drop) { c.Events.Observe(dropped(name, d)) },
		Logger:  c.Logger.Named("cloudevents").With("plugin", name),
	})
	var added bool // a sink, by the revision that is about to start
	return runner.PluginPart{
		Prepare: func(_ context.Context, rev *runner.Revision) (use runner.Use, err error) {
			settings := settingsOf(rev)
			secrets, err := c.secretsOf(rev, settings)
			return func(runner.Running) any {
				added = p.Configure(settings, secrets)
				return nil
			}, err
		},
		Controller: func(h runner.Handle) runner.ControllerPart {
			one := &controller{plugin: name, handle: h, to: p}
			return runner.ControllerPart{
				Hooks:   dispatch.Hooks{Changed: one.changed, Ended: one.ended},
				Swapped: func(before, next *dispatch.Revision) { one.swapped(before, next, added) },
				Stop:    one.stop,
			}
		},
		// A Lease of the plugin may be given up meanwhile.
		Stop: func() { c.closing.Go(p.Close) },
	}
}

// dropped returns what is reported of events that were dropped.
func dropped(plugin string, d Drop) events.Notice {
	return events.Notice{
		Plugin: plugin, Name: eventDropped, Warning: true, Reason: reasonDropped,
		Line:    "CloudEvents were dropped, and their receivers do not learn what has happened",
		Fields:  []any{"sink", d.Sink, "reason", d.Reason, "why", d.Why, "events", d.Events},
		Summary: fmt.Sprintf("dropped %d CloudEvents for the sink %s (%s): ", d.Events, d.Sink, d.Reason), Details: d.Why,
	}
}

// settingsOf returns where the events of a revision are published: nowhere in a dry run, whose changes
// others must not take for done, and if no controller publishes any.
func settingsOf(rev *runner.Revision) Settings {
	settings, _ := rev.Policy.Sections[contract.Name].(*Settings)
	if settings == nil || rev.Policy.DryRun {
		return Settings{}
	}
	for i := range rev.Manifest.Controllers {
		if publishes(&rev.Manifest.Controllers[i]) {
			return *settings
		}
	}
	return Settings{}
}

// secretsOf returns what reads the Secrets with the credentials of sinks, nil if there are none.
func (c *capability) secretsOf(rev *runner.Revision, s Settings) (egress.SecretReader, error) {
	if len(s.Secrets()) == 0 {
		return nil, nil
	}
	return egress.NewSecretReader(c.Cluster, rev.Policy.Account(), "thole/"+c.Version+" plugin/"+rev.Plugin)
}
