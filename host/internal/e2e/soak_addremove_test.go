package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/thole-dev/thole/host/internal/await"
)

// A plugin is added, reconciles every object and is removed, again and again and
// each time as another version. After the last time the host uses what it used
// after the first.
//
// Another plugin keeps running and watches the same kinds, except for the primary's:
// informers that nobody uses are kept for ten minutes, longer than the test takes.
func TestSoakPluginAddedAndRemovedRepeatedlyLeaksNothing(t *testing.T) {
	cycles := 6
	if os.Getenv("SOAK") != "" {
		cycles = 50
	}
	c := newAddRemove(t)
	c.cycle()
	first := c.host.usageAfterGC()
	t.Logf("after the first cycle: %v", first)
	for n := 2; n <= cycles; n++ {
		c.cycle()
		if n%10 == 0 && n != cycles {
			t.Logf("after %d cycles: %v", n, c.host.usageAfterGC())
		}
	}
	c.host.expectNoLeak(first)
	c.host.expectMemory(1.1 * first.rss)
	c.host.stop()
	c.host.expectNoErrors()
}

// addRemove is a host with a plugin that stays and one that is added and removed.
type addRemove struct {
	t    *testing.T
	ns   string
	dir  *soakDirectory
	host *process
}

func newAddRemove(t *testing.T) *addRemove {
	t.Helper()
	c := &addRemove{t: t, ns: namespace(t)}
	for plugin := range 2 {
		kind := installSoakCRD(t, plugin)
		for i := range 20 {
			create(t, kind, soakKind(plugin), c.ns, fmt.Sprintf("%s-%d", soakName(plugin), i), map[string]any{"text": "as it is"})
		}
	}
	c.dir = newSoakDirectory(t, nil, 2, 0)
	c.dir.remove(c.dir.plugins[1])
	c.host = start(t, c.dir.directory, c.ns, soakLimits, quietlyIn(t.TempDir()))
	c.host.awaitRunning(soakName(0), 1)
	return c
}

// cycle adds the plugin, waits until it has reconciled every object, and removes it.
func (c *addRemove) cycle() {
	c.t.Helper()
	p := c.dir.plugins[1]
	c.dir.replace(p, c.dir.modules.plain)
	await.Until(c.t, "every object is of "+p.version, func() bool {
		for _, o := range list(c.t, soakResource(1), c.ns) {
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
