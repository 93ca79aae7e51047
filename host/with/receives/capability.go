package receives

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/time/rate"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/receives"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
)

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{
		Name:     contract.Name,
		Check:    contract.Check,
		Policy:   newSettings,
		Config:   newHostSettings,
		Rules:    rules,
		Title:    "Receives",
		Describe: describe,
		New:      newCapability,
	}
}

func newCapability(env runner.Environment) runner.Capability {
	settings := env.Section.(*HostSettings)
	c := &capability{metrics: newMetrics(env.Metrics), rate: settings.EventsPerSecond}
	h := New(Config{
		Receivers: c.receivers.all,
		Starting:  func() bool { return c.awaits(c.receivers.knows) },
		Tokens:    env.Clients.TokenReviews,
		Access:    access.New(access.OfCallers(env.Clients.AccessReviews)),
		Audiences: settings.Audiences,
		Metrics:   c.metrics,
		Logger:    env.Logger.Named("receive"),
	})
	return runner.Capability{Start: c.start, Plugin: c.plugin, Serve: map[string]http.Handler{"/events": h, "/events/{plugin}": h}}
}

// capability receives the events of the plugins of a host.
type capability struct {
	metrics   metrics
	rate      float32 // of a plugin whose policy has none
	receivers receivers
	awaits    func(runs func(plugin string) bool) bool // of the host, once it was made
}

func (c *capability) start(_ context.Context, host runner.Host) (func(context.Context) error, error) {
	c.awaits = host.Awaits
	return nil, nil
}

// plugin receives the events of one plugin.
func (c *capability) plugin(name string) runner.PluginPart {
	limit := NewRate(0)
	return runner.PluginPart{
		Prepare: func(_ context.Context, rev *runner.Revision) (use runner.Use, err error) {
			return func(runner.Running) any {
				perSecond := c.rate
				if settings, ok := rev.Policy.Sections[contract.Name].(*Settings); ok {
					perSecond = settings.EventsPerSecond
				}
				SetRate(limit, float64(perSecond))
				if all := receiversOf(rev, limit); c.receivers.use(name, all) {
					c.metrics.Received(name, http.StatusAccepted, 0) // creates the series
				}
				return nil
			}, nil
		},
		Controller: func(h runner.Handle) runner.ControllerPart {
			return runner.ControllerPart{
				Swapped: func(_, next *dispatch.Revision) { c.receivers.started(name, next.Controller.Name, h) },
				Stop:    func() { c.receivers.ended(name, h) },
			}
		},
		Stop: func() { c.receivers.forget(name) },
	}
}

// receiversOf returns the controllers of a revision that receive events, as if none of them ran.
func receiversOf(rev *runner.Revision, limit *rate.Limiter) (all []Receiver) {
	for i := range rev.Manifest.Controllers {
		m := &rev.Manifest.Controllers[i]
		if declared := receivesOf(m); len(declared) > 0 {
			all = append(all, Receiver{Plugin: rev.Plugin, Name: m.Name, Receives: declared, Rate: limit})
		}
	}
	return all
}

// receivesOf returns what a controller receives.
func receivesOf(c *abi.Controller) []contract.Receive {
	section := c.Section(contract.Name)
	if section == nil {
		return nil
	}
	all, _ := contract.Decode(section) // was checked
	return all
}

// rules returns what the host needs to receive the events of a plugin: it asks who sends them, and what that
// may make run.
func rules(m *abi.Manifest, _ rights.Resources) []rights.Rule {
	if !slices.ContainsFunc(m.Controllers, func(c abi.Controller) bool { return len(receivesOf(&c)) > 0 }) {
		return nil
	}
	create := []string{rights.Create}
	return []rights.Rule{
		{Group: "authentication.k8s.io", Resource: "tokenreviews", Verbs: create, Uses: []string{"create: find out who sends events"}},
		{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verbs: create, Uses: []string{"create: find out what they may make run"}},
	}
}

// describe describes events such as "com.example.stopped by index container from data.id".
func describe(c *abi.Controller) string {
	var texts []string
	for _, r := range receivesOf(c) {
		text := r.Type
		if r.DataSchema != "" {
			text = strings.TrimSpace(r.Type + " of schema " + r.DataSchema)
		}
		if r.Resolve == nil {
			text += " by subject"
		} else {
			text += " by index " + r.Resolve.Index + " from " + r.Resolve.From
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
