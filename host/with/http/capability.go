package http

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/http"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
	"github.com/thole-dev/thole/host/with/http/egress"
)

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{
		Name:  contract.Name,
		Check: contract.Check,
		Imports: []with.Import{{
			Name: contract.Import, Meaning: "sends HTTP requests, to hosts that the manifest declares and the policy allows",
			MaxMessage: contract.MaxMessage, HasEffects: true, Waits: defaultRequests,
		}},
		Policy:   func() config.PolicySection { return newHostSettings().settings() },
		Config:   func() config.HostSection { return newHostSettings() },
		Allow:    egress.Entries(nil),
		Missing:  missing,
		Title:    "HTTP",
		Describe: describe,
		New: func(env runner.Environment) runner.Capability {
			m := newMetrics(env.Metrics)
			return runner.Capability{Plugin: func(name string) runner.PluginPart {
				return (&plugin{Environment: env, name: name, metrics: m, state: egress.NewState()}).part()
			}}
		},
	}
}

// plugin sends the requests of one plugin.
type plugin struct {
	runner.Environment
	name    string
	metrics metrics
	state   *egress.State  // of all its revisions
	client  *egress.Client // of the running revision; nil: it sends no requests
}

func (p *plugin) part() runner.PluginPart {
	return runner.PluginPart{
		Prepare: p.prepare,
		Controller: func(runner.Handle) runner.ControllerPart {
			return runner.ControllerPart{Hooks: dispatch.Hooks{
				Imports: map[string]func(context.Context, *dispatch.ImportCall) ([]byte, int64){contract.Import: p.send},
			}}
		},
		Stop: func() { p.client.Close() },
	}
}

// sending is what is kept for a revision that sends requests.
type sending struct {
	client *egress.Client
	hosts  map[string][]contract.Host // that its controllers name, by their names
}

// prepare makes the client of a revision. What earlier ones have left of the limits is kept.
func (p *plugin) prepare(_ context.Context, rev *runner.Revision) (use runner.Use, err error) {
	settings, _ := rev.Policy.Sections[contract.Name].(*Settings)
	if settings == nil {
		settings = &Settings{}
	}
	var secrets egress.SecretReader
	if len(settings.Secrets()) > 0 {
		secrets, err = egress.NewSecretReader(p.Cluster, rev.Policy.Account(), "thole/"+p.Version+" plugin/"+p.name)
	}
	return func(with runner.Running) any {
		hosts := map[string][]contract.Host{}
		for _, c := range rev.Manifest.Controllers {
			if of := contract.HostsOf(&c); len(of) > 0 {
				hosts[c.Name] = of
			}
		}
		replaced := p.client
		p.client = nil
		if len(hosts) > 0 {
			p.client = egress.New(egress.Config{
				Plugin:    p.name,
				Entries:   settings.Hosts,
				DryRun:    rev.Policy.DryRun,
				State:     p.state,
				AtOnce:    settings.Requests,
				PerSecond: settings.RequestsPerSecond,
				Secrets:   secrets,
				Observe:   p.metrics.of(p.name, settings.Hosts),
				Logger:    with.Logger(p.Logger.Named("http").With("plugin", p.name)),
			})
		}
		replaced.Close()
		return sending{p.client, hosts}
	}, err
}

// send answers the import: a host that does not lead the plugin sends nothing, nor for a run that will be repeated.
func (p *plugin) send(ctx context.Context, call *dispatch.ImportCall) (reply []byte, code int64) {
	message, err := contract.DecodeCall(call.Message)
	if err != nil {
		return call.Invalid(err)
	}
	kept, _ := call.Kept.(sending)
	hosts := kept.hosts[call.Revision.Controller.Name]
	if hosts == nil {
		call.Warn("denied: HTTP of the controller names no host")
		return nil, abi.CodeDenied
	}
	end, code := call.BeginEffect(ctx)
	if code != 0 {
		return nil, code
	}
	defer end()
	answer, err := kept.client.Do(ctx, hosts, message, min(call.MaxReply, contract.MaxAnswer), call.MayGoOn, func(e events.RequestEnded) {
		e.Run = call.Run
		p.Events.Observe(e)
	})
	if err != nil {
		return notSent(call, err)
	}
	return contract.EncodeReply(answer), 0
}

// notSent returns the code of a request without a reply.
func notSent(call *dispatch.ImportCall, err error) (reply []byte, code int64) {
	if _, invalid := errors.AsType[*egress.InvalidError](err); invalid {
		return call.Invalid(err)
	}
	code = abi.CodeUnavailable
	if _, denied := errors.AsType[*egress.DeniedError](err); denied {
		code = abi.CodeDenied
	} else if errors.Is(err, egress.ErrTooLarge) {
		code = abi.CodeTooLarge
	}
	call.Warn("the request has no answer", "error", err)
	return nil, code
}

// describe describes hosts such as "api.example.com (GET, POST)".
func describe(c *abi.Controller) string {
	var texts []string
	for _, h := range contract.HostsOf(c) {
		texts = append(texts, h.Host+" ("+cmp.Or(strings.Join(h.Methods, ", "), "GET")+")")
	}
	return strings.Join(texts, ", ")
}
