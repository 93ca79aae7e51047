package inspect

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/catalog"
)

// TestOverlapSaysWhatTheCatalogSays gives manifests to both.
func TestOverlapSaysWhatTheCatalogSays(t *testing.T) {
	other := abi.Kind{APIVersion: "example.com/v2", Kind: "Widget"}
	for name, c := range map[string]struct {
		second  abi.Controller
		refused bool
	}{
		"another kind":          {abi.Controller{Name: "b", For: gadget}, false},
		"another target":        {abi.Controller{Name: "b", For: widget, Conditions: abi.Conditions{Target: "Synced"}}, false},
		"the same":              {abi.Controller{Name: "b", For: widget}, true},
		"the same, spelled out": {abi.Controller{Name: "b", For: widget, Conditions: abi.Conditions{Target: "Ready"}}, true},
		"another version":       {abi.Controller{Name: "b", For: other}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &abi.Manifest{Name: "twins", Controllers: []abi.Controller{{Name: "a", For: widget}, c.second}}
			said := ""
			if err := overlap(m); err != nil {
				said = err.Error()
			}
			status := start(t, m)
			if said != status.LastError || (said != "") != c.refused {
				t.Errorf("inspect says %q, the catalog %q", said, status.LastError)
			}
			if c.refused && status.RejectedFor != stepOverlap {
				t.Errorf("the catalog calls the step %q", status.RejectedFor)
			}
		})
	}
}

// start gives a plugin to a catalog and returns what became of it.
func start(t *testing.T, m *abi.Manifest) (status catalog.Status) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := catalog.New(catalog.Config{Loader: loaded{m}, Runner: idle{}, Observer: idle{}, Logger: hclog.NewNullLogger()})
		c.Update(ctx, []catalog.Module{{Name: m.Name, Digest: "d"}})
		synctest.Wait()
		status = c.Statuses()[0]
		cancel()
		c.Wait()
	})
	return status
}

// loaded is a guest whose loader it is, too.
type loaded struct{ manifest *abi.Manifest }

func (l loaded) Load(context.Context, *catalog.Module) (catalog.Guest, error) { return l, nil }
func (l loaded) Reload(context.Context, catalog.Guest, *catalog.Module) (catalog.Guest, error) {
	return l, nil
}

func (l loaded) Manifest() *abi.Manifest     { return l.manifest }
func (l loaded) Close(context.Context) error { return nil }

// idle runs nothing and counts nothing.
type idle struct{}

func (idle) Start(context.Context, *catalog.Generation) error        { return nil }
func (idle) Sound(string) bool                                       { return false }
func (idle) Stop(string, bool)                                       {}
func (idle) PluginStarted(*catalog.Generation)                       {}
func (idle) PluginStopped(string)                                    {}
func (idle) PluginFailed(string, string, error, *catalog.Generation) {}
func (idle) PluginWaits(string, string)                              {}
func (idle) PluginRolledBack(_, _ *catalog.Generation, _ string)     {}
