// Command refused passes values without a codec to the SDK.
package main

import (
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/generate/testdata/calls/helpers"
	"github.com/thole-dev/thole/sdk/generate/testdata/calls/objects"
	"github.com/thole-dev/thole/sdk/read"
)

func init() {
	sdk.RegisterGenerated(sdk.Controller[Spec, Status]{
		Reconcile: reconcile,
		Warm:      []any{Spec{}, []Child{}},
	})
}

type (
	Spec   struct{ Name string }
	Status struct{ Name string }
	Child  struct{ A int }

	// ByHelper is passed to a helper only.
	ByHelper   struct{ A int }
	Box[T any] struct{ Content T }
	numbers    []int
)

// Left is left to encoding/json.
//
//thole:leave
type Left struct{ A int }

type request = sdk.Request[Spec, Status]

func reconcile(r *request) (sdk.Action, error) {
	direct(r)
	throughHelpers(r)
	throughGenerics(r)
	throughVariables(r)
	return sdk.AwaitChange(), reads(r)
}

func direct(r *request) {
	r.Apply(map[string]any{"kind": "ConfigMap"})
	r.Apply(configMap())
	(r.Apply)(&map[string]any{})
	r.Apply(struct{ A int }{1})
	r.Apply([]Child{{1}})
	r.Apply([]*Child{})
	r.Apply(new(*Child))
	r.Apply(Box[int]{})
	r.Apply(Left{})
	r.Apply(objects.Unmarked{})
	r.Apply(sdk.ObjectMeta{})
	r.Patch(map[string]map[string]string{})
	r.SetMemo(time.Now())
	r.SetMemo(1.5)
	r.SetMemo(new("text"))
	type local struct{ A int }
	r.SetMemo(local{})
	_, _ = sdk.Encode([]int{})
}

func configMap() map[string]any { return nil }

func reads(r *request) error {
	var m map[string]any
	var v any
	var child Child
	var pointer *Child
	var pointers []*Child
	var list []objects.Unmarked
	_ = r.Get(sdk.Ref{}, &m)
	_ = r.Get(sdk.Ref{}, m)
	_ = r.Get(sdk.Ref{}, &v)
	_ = r.Get(sdk.Ref{}, child)
	_ = r.Get(sdk.Ref{}, &pointer)
	_ = r.List(sdk.Query{}, &pointers)
	_ = r.List(sdk.Query{}, &list)
	_ = r.Config(&struct{ A int }{})
	_, _ = r.Memo(new(float64))
	return sdk.Decode(nil, &[]byte{})
}

func throughHelpers(r *request) {
	helpers.Apply(r.Run, map[string]any{})
	helpers.Apply(r.Run, ByHelper{})
	helpers.ApplyAll(r.Run, Child{}, map[string]any{})
	helpers.ApplyAll(r.Run, []any{Child{}, Left{}}...)
	helpers.ApplyList(r.Run, []any{0: map[string]any{}})
	applier{r}.apply("name", any(map[string]any{}))
}

type applier struct{ *request }

func (a applier) apply(_ string, object any) {
	defer func() { a.Apply(object) }()
}

func throughGenerics(r *request) {
	_, _ = helpers.Get[map[string]any](r.Run, sdk.Ref{})
	_, _ = helpers.Get[any](r.Run, sdk.Ref{})
	_, _ = helpers.Get[*Child](r.Run, sdk.Ref{})
	_, _ = helpers.List[objects.Unmarked](r.Run, sdk.Query{})
	get := helpers.Get[Left]
	_, _ = get(r.Run, sdk.Ref{})
	helpers.Store[[]string]{}.Put(nil)
	helpers.Store[numbers]{}.Put(nil)
	applyTo(r, map[string]string{}, []map[string]any{})
	read.Pages[Left](r.Run, sdk.Query{}, 1)
}

func applyTo[K comparable, V any](r *request, _ map[K]string, objects []V) {
	for _, object := range objects {
		r.Apply(object)
	}
}

func throughVariables(r *request) {
	var declared any = map[string]any{}
	r.Apply(declared)
	assigned := any(configMap())
	r.Apply(assigned)
	applied := any(configMap())
	r.Apply(applied)
	r.Apply(applied)
	for _, object := range []any{Child{}, map[string]any{}} {
		r.Apply(object)
	}
	for _, objects := range [][]any{{&Child{}, map[string]any{}}} {
		for _, object := range objects {
			r.Apply(object)
		}
	}
	for _, object := range (objectList{configMap()}) {
		r.Apply(object)
	}
	list := []any{any(configMap()), &Child{}}
	for _, object := range list {
		r.Apply(object)
	}
}

type objectList []any

type daemonStep = sdk.DaemonStep[Spec, Status]

func step(d *daemonStep, _ *Child) error {
	d.Signal(map[string]int{})
	d.Signal(objects.Unmarked{})
	_ = d.Get(sdk.Ref{}, &map[string]any{})
	_ = d.List(sdk.Query{}, &[]objects.Unmarked{})
	return d.Config(new(float64))
}

// The states of these daemons have no codec.
var (
	_ = sdk.Daemon(step)
	_ = sdk.Daemon(func(*daemonStep, *Left) error { return nil })
	_ = sdk.Daemon(func(*daemonStep, *map[string]int) error { return nil })
	_ = sdk.Daemon[[]Child](func(*daemonStep, *[]Child) error { return nil })
	_ = sdk.Daemon[objects.Unmarked, Spec, Status](func(*daemonStep, *objects.Unmarked) error { return nil })
	_ = sdk.Daemon(func(*daemonStep, *any) error { return nil })
	_ = sdk.Daemon(func(*daemonStep, **Child) error { return nil })
	_ = sdk.Daemon(func(*daemonStep, *struct{ A int }) error { return nil })
	_ = daemonOf(1.5)
)

func daemonOf[State any](State) *sdk.DaemonOf[Spec, Status] {
	return sdk.Daemon(func(*daemonStep, *State) error { return nil })
}

type object = sdk.Object[Spec, Status]

func review(r *sdk.Review, _, _ *object) error {
	_ = r.Get(sdk.Ref{}, &map[string]any{})
	_ = r.List(sdk.Query{}, &[]objects.Unmarked{})
	return r.Config(new(float64))
}

// The types of these versions have no codec.
var (
	_ = sdk.Validate(review)
	_ = sdk.Version("v2",
		func(*sdk.Object[Left, struct{}], *object) error { return nil },
		func(*object, *sdk.Object[Left, struct{}]) error { return nil })
	_ = versionOf(objects.Unmarked{})
)

func versionOf[Other any](Other) sdk.VersionOf[Spec, Status] {
	return sdk.Version("v3",
		func(*sdk.Object[map[string]any, Other], *object) error { return nil },
		func(*object, *sdk.Object[map[string]any, Other]) error { return nil })
}

func scan(s *sdk.Scanning) error {
	s.Signal("", "one", map[string]int{})
	_ = s.Get(sdk.Ref{}, &map[string]any{})
	_ = s.List(sdk.Query{}, &[]objects.Unmarked{})
	return s.Config(new(float64))
}

var _ = sdk.Scan("due", 0, scan)

func main() {}
