package page

import (
	"context"
	"net/http"
	"sync"

	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
)

// name is that of the capability, which has no sections.
const name = "page"

// Capability returns the capability.
func Capability() with.Capability { return with.Capability{Name: name, New: newCapability} }

func newCapability(env runner.Environment) runner.Capability {
	p := newPage(env)
	ctx, cancel := context.WithCancel(context.Background())
	var sampling sync.WaitGroup
	sampling.Go(func() { p.rates.run(ctx, p.numbers) })
	return runner.Capability{
		Start: func(_ context.Context, host runner.Host) (func(context.Context) error, error) {
			p.plugins, p.lastRuns = host.Plugins, host.LastRuns
			return nil, nil
		},
		Observe: p.history.observe,
		Views:   map[string]http.Handler{"/ui": p.handler()},
		Stop: func() {
			cancel()
			sampling.Wait()
		},
	}
}
