package finalizers

import (
	"context"
	"fmt"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
)

// The rate is above that of a plugin's writes, because an administrator waits
// for the result.
const (
	requestsPerSecond = 50
	requestsAtOnce    = 100
)

// Release removes the finalizers one after the other, and calls done with the
// result of each. An object that was deleted meanwhile counts as released. Other
// finalizers, and objects that were created again under the same name, are not
// changed. Release returns how many have failed, including those that were not
// tried because ctx was done.
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

// performer returns the performer that removes the finalizers of running plugins,
// too, and whatever their policies allow: an administrator asks for it. Its patch fails if
// the list of finalizers has changed.
func (c Config) performer(held []Held) (*effect.Performer, error) {
	kinds := store{}
	for _, h := range held {
		kinds[h.Kind.Kind] = h.Kind
	}
	return effect.New(effect.Config{
		Planner: effect.Planner{Plugin: c.Owner.Plugin, Store: kinds, Allow: rights.Everything()},
		REST:    c.Cluster, Version: c.Version, Recorder: silent{}, QPS: requestsPerSecond, Burst: requestsAtOnce, DryRun: c.DryRun,
	})
}

// store is an [effect.Store] with resources and without objects.
type store map[abi.Kind]object.Resource

// Resource implements [effect.Store].
func (s store) Resource(_ context.Context, kind abi.Kind) (object.Resource, error) {
	return s[kind], nil
}

// Get implements [effect.Store].
func (store) Get(abi.Kind, object.Key) (*object.Object, effect.Presence) { return nil, effect.Unknown }

// List implements [effect.Store].
func (store) All(abi.Kind) iter.Seq[*object.Object] { return func(func(*object.Object) bool) {} }

// OwnedBy implements [effect.Store].
func (store) OwnedBy(abi.Kind, string, types.UID) ([]*object.Object, bool) { return nil, false }

// StatusSchema implements [effect.Store].
func (store) StatusSchema(context.Context, abi.Kind, time.Duration) (*object.Schema, error) {
	return nil, nil
}

// silent discards events.
type silent struct{}

// Event implements [effect.Recorder].
func (silent) Event(runtime.Object, string, string, string) {}
