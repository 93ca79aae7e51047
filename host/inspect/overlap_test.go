package inspect

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/events"
)

// TestOverlapIsThatOfTheCatalog compares the errors of inspect and the catalog.
func TestOverlapIsThatOfTheCatalog(t *testing.T) {
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
			got := ""
			if err := overlap(m); err != nil {
				got = err.Error()
			}
			status := start(t, m)
			if got != status.LastError || (got != "") != c.refused {
				t.Errorf("inspect returned %q, the catalog %q", got, status.LastError)
			}
			if c.refused && status.FailedStep != stepOverlap {
				t.Errorf("the step of the catalog is %q", status.FailedStep)
			}
		})
	}
}

// start starts a plugin in a catalog and returns its status.
func start(t *testing.T, m *abi.Manifest) (status catalog.Status) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := catalog.New(catalog.Config[loaded]{Loader: loaded{m}, Runner: idleRunner{}, Events: events.Func(func(events.Event) {}), Logger: hclog.NewNullLogger()})
		c.Update(ctx, []catalog.Module{{Name: m.Name, Digest: "d"}})
		synctest.Wait()
		status = c.Statuses()[0]
		cancel()
		c.Wait()
	})
	return status
}

// loaded is a guest and its loader.
type loaded struct{ manifest *abi.Manifest }

func (l loaded) Load(context.Context, *catalog.Module) (loaded, error) { return l, nil }
func (l loaded) WithPolicy(context.Context, loaded, *catalog.Module) (loaded, error) {
	return l, nil
}

func (l loaded) Manifest() *abi.Manifest     { return l.manifest }
func (l loaded) Close(context.Context) error { return nil }

// idleRunner runs nothing.
type idleRunner struct{}

func (idleRunner) Start(context.Context, *catalog.Revision[loaded]) error { return nil }
func (idleRunner) Healthy(string) bool                                    { return false }
func (idleRunner) Stop(string, bool)                                      {}
