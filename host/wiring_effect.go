package host

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
)

// dispatchEffects are a plugin's effects under one policy, as dispatch wants
// them.
type dispatchEffects struct{ performer *effect.Performer }

var _ dispatch.Effects = dispatchEffects{}

func target(primary *object.Object, c *abi.Controller) effect.Target {
	return effect.Target{Controller: c, Object: primary}
}

func failure(f *effect.Failure) *dispatch.Failure {
	if f == nil {
		return nil
	}
	return &dispatch.Failure{EffectFailure: f.EffectFailure, Conflict: f.Conflict}
}

func (e dispatchEffects) HasFinalizer(primary *object.Object, c *abi.Controller) bool {
	return e.performer.HasFinalizer(target(primary, c))
}

func (e dispatchEffects) EnsureFinalizer(ctx context.Context, primary *object.Object, c *abi.Controller) (*object.Object, bool, *dispatch.Failure) {
	reply, wrote, f := e.performer.EnsureFinalizer(ctx, target(primary, c))
	return reply, wrote, failure(f)
}

func (e dispatchEffects) RemoveFinalizer(ctx context.Context, primary *object.Object, c *abi.Controller) (*object.Object, *dispatch.Failure) {
	reply, f := e.performer.RemoveFinalizer(ctx, target(primary, c))
	return reply, failure(f)
}

func (e dispatchEffects) Intents(ctx context.Context, primary *object.Object, c *abi.Controller, result *abi.Result) (dispatch.Performed, *dispatch.Failure) {
	report, f := e.performer.Intents(ctx, target(primary, c), effect.Intents{
		Patch: result.Patch, Apply: result.Apply, Delete: result.Delete, Events: result.Events,
	})
	performed := dispatch.Performed{Primary: report.Primary}
	for _, w := range report.Writes {
		performed.Writes = append(performed.Writes, dispatch.Write{Verb: w.Verb, Kind: w.Kind, Key: w.Key, ResourceVersion: w.ResourceVersion})
	}
	return performed, failure(f)
}

func (e dispatchEffects) Status(ctx context.Context, primary *object.Object, c *abi.Controller, change dispatch.StatusChange) (*object.Object, bool, *dispatch.Failure) {
	wanted := effect.Status{Patch: change.Patch, Remove: change.Remove, ObservedGeneration: change.ObservedGeneration, HandledRequest: change.HandledRequest}
	for _, s := range change.Set {
		wanted.Set = append(wanted.Set, effect.Condition{
			Type: s.Type, Status: s.Status, Reason: s.Reason, Message: s.Message, ObservedGeneration: s.ObservedGeneration,
		})
	}
	reply, wrote, f := e.performer.Status(ctx, target(primary, c), wanted)
	return reply, wrote, failure(f)
}

func (e dispatchEffects) Event(primary *object.Object, c *abi.Controller, event *abi.Event) {
	e.performer.Event(target(primary, c), event)
}

func (e dispatchEffects) Forget(uid types.UID) { e.performer.Forget(uid) }
