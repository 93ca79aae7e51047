// Command left passes values to the SDK that get no codec.
package main

import (
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/children"
	"github.com/thole-dev/thole/sdk/generate/testdata/calls/helpers"
)

func init() {
	sdk.Register(sdk.Controller[Spec, map[string]any]{Reconcile: reconcile, Warm: []sdk.Value{[]*Child{}}})
}

type (
	Spec       struct{ Values map[string]any } // has a field without codec
	Child      struct{ A int }
	Box[T any] struct{ Content T }
)

type request = sdk.Request[Spec, map[string]any]

func reconcile(r *request) (sdk.Action, error) {
	r.Apply(map[string]any{"kind": "ConfigMap"})
	(r.Apply)(&map[string]any{})
	r.Apply(struct{ A int }{1})
	r.Apply(new(*Child))
	r.Apply(Box[int]{})
	r.Apply(sdk.ObjectMeta{})
	r.SetMemo(time.Now())
	r.SetMemo(1.5)
	type local struct{ A int }
	r.SetMemo(local{})
	children.Group{}.Apply(r.Run, map[string]int{})
	helpers.Apply(r.Run, map[string]bool{})
	helpers.ApplyAll(r.Run, Child{}, map[string]int64{})
	helpers.ApplyAll(runAndObject(r))
	_, _ = helpers.Get[map[string]any](r.Run, sdk.Ref{})
	_, _ = helpers.Get[any](r.Run, sdk.Ref{})
	_, _ = helpers.List[Box[string]](r.Run, sdk.Query{})
	helpers.Store[[]int]{}.Put(nil)
	apply(r, Child{})
	for _, object := range []any{Child{}} {
		r.Apply(object)
	}
	return sdk.AwaitChange(), nil
}

func runAndObject(r *request) (*sdk.Run, []float64) { return r.Run, nil }

// apply accepts anything.
func apply(r *request, object any) {
	r.Apply(object)
	if value, ok := object.(sdk.Value); ok {
		r.Apply(value)
	}
	switch object := object.(type) {
	case sdk.Value:
		r.Apply(object)
	}
}

var _ = sdk.Daemon(func(*sdk.DaemonStep[Spec, map[string]any], *Box[bool]) error { return nil })

func main() {}
