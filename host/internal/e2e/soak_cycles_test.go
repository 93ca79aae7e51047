package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
)

// TestSoakAPluginComesAndGoes adds a plugin, waits until it has reconciled, and
// removes it, again and again and each time another one. After the last time
// the host has what it had after the first.
//
// Another plugin keeps running, of the same kinds but for the primary's: its
// informer goes on for ten minutes, longer than all of this takes.
func TestSoakAPluginComesAndGoes(t *testing.T) {
	cycles := 6
	if os.Getenv("SOAK") != "" {
		cycles = 50
	}
	c := newCycles(t)
	c.cycle()
	first := c.host.rest()
	t.Logf("after the first: %v", first)
	for n := 2; n <= cycles; n++ {
		c.cycle()
		if n%10 == 0 && n != cycles {
			t.Logf("after %d: %v", n, c.host.rest())
		}
	}
	c.host.expectNothingLeft(first)
	c.expectSameMemory(first)
	c.host.stop()
	c.host.expectNoErrors()
}

// cycles is a host with a plugin that stays and one that comes and goes.
type cycles struct {
	t    *testing.T
	ns   string
	dir  *soakDirectory
	host *process
}

func newCycles(t *testing.T) *cycles {
	t.Helper()
	c := &cycles{t: t, ns: namespace(t)}
	for plugin := range 2 {
		kind := installSoakKind(t, plugin)
		for i := range 20 {
			done(t, create(t.Context(), kind, soakKind(plugin), c.ns, fmt.Sprintf("%s-%d", soakName(plugin), i), map[string]any{"text": "as it is"}))
		}
	}
	c.dir = newSoakDirectory(t, nil, 2, 0)
	c.dir.remove(c.dir.plugins[1])
	how := host(c.dir.path, cluster.Kubeconfig, c.ns, soakLimits)
	how.CacheDir, how.Args = t.TempDir(), append(how.Args, "--log-level", "info")
	c.host = &process{how.Start(t), t}
	c.host.ready(soakName(0), 1)
	return c
}

// cycle lets the plugin come, reconcile every object, and go.
func (c *cycles) cycle() {
	c.t.Helper()
	p := c.dir.plugins[1]
	c.dir.replace(p, c.dir.modules.plain)
	kind := installedSoakKind(1)
	await.Until(c.t, "every object is of "+p.version, func() bool {
		for _, o := range list(c.t, kind, c.ns) {
			if field(&o, "status", "version") != p.version || !ready(&o) {
				return false
			}
		}
		return true
	})
	c.dir.remove(p)
	await.Until(c.t, p.version+" is gone", func() bool {
		all, ok := c.host.Plugins()
		return ok && len(all) == 1
	})
}

// expectSameMemory waits until the host has at most a tenth more than it had.
func (c *cycles) expectSameMemory(first soakRest) {
	c.t.Helper()
	if raceDetector {
		return // it remembers what was
	}
	await.Until(c.t, fmt.Sprintf("RSS is at most a tenth more than %.1f MiB", first.rss), func() bool {
		now := c.host.rest()
		c.t.Logf("after all: %v", now)
		return now.rss <= 1.1*first.rss
	})
}
