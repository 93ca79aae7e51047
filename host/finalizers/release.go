package finalizers

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
)

// An administrator waits for the answers, so they come faster than a plugin's
// writes.
const (
	requestsPerSecond = 50
	requestsAtOnce    = 100
)

// Release takes the finalizers off, one after the other, and tells done how
// each went; an object that is gone meanwhile is released. No other finalizer
// is touched, and no object that has the name of one that is gone. It returns
// how many failed; those that ctx has cut off count.
func Release(ctx context.Context, c Config, held []Held, done func(Held, error)) (failed int, err error) {
	p, err := c.performer(held)
	if err != nil {
		return 0, err
	}
	for i, h := range held {
		if ctx.Err() != nil {
			return failed + len(held) - i, context.Cause(ctx)
		}
		err := remove(ctx, p, h)
		if err != nil {
			failed++
		}
		done(h, err)
	}
	return failed, nil
}

func remove(ctx context.Context, p *effect.Performer, h Held) error {
	_, failure := p.RemoveFinalizer(ctx, effect.Target{Controller: &abi.Controller{Name: h.Controller}, Object: h.Object})
	if failure != nil {
		return fmt.Errorf("release %s %s: %s", KindName(h.Kind.Kind), h.Object.Key(), failure.Message)
	}
	return nil
}

// performer is what takes off the finalizers of a plugin that runs: the same
// patch, which the API server refuses when the list is another one by then.
func (c Config) performer(held []Held) (*effect.Performer, error) {
	kinds := store{}
	for _, h := range held {
		kinds[h.Kind.Kind] = h.Kind
	}
	return effect.New(effect.Config{
		REST: c.Cluster, Plugin: c.Owner.Plugin, Version: c.Version,
		Store: kinds, Recorder: silent{}, QPS: requestsPerSecond, Burst: requestsAtOnce, DryRun: c.DryRun,
	})
}

// store knows where the kinds are served, and no object.
type store map[abi.Kind]object.Resource

// Resource implements [effect.Store].
func (s store) Resource(_ context.Context, kind abi.Kind) (object.Resource, error) {
	return s[kind], nil
}

// Get implements [effect.Store].
func (store) Get(abi.Kind, object.Key) (*object.Object, bool) { return nil, false }

// silent emits no events: nothing of the plugin runs.
type silent struct{}

// Event implements [effect.Recorder].
func (silent) Event(runtime.Object, string, string, string) {}
