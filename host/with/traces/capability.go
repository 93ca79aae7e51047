package traces

import (
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
)

// name is that of the section in the file of --config, as in those of Kubernetes components.
const name = "tracing"

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{
		Name:   name,
		Config: func() config.HostSection { return &Settings{SamplingRatePerMillion: million} },
		New: func(env runner.Environment) runner.Capability {
			settings := env.Section.(*Settings)
			if settings.Endpoint == "" {
				return runner.Capability{}
			}
			t := newTracer(settings, env.Version, env.Logger.Named(name))
			return runner.Capability{Observe: t.observe, Stop: t.stop}
		},
	}
}
