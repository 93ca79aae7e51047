// Command accepted passes only values with a codec to the SDK, or values of which that
// is not certain.
package main

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/generate/testdata/calls/helpers"
	"github.com/thole-dev/thole/sdk/generate/testdata/calls/objects"
	"github.com/thole-dev/thole/sdk/read"
)

func init() {
	sdk.RegisterGenerated(sdk.Controller[Spec, Status]{
		Reconcile: reconcile, Warm: []any{Spec{}, 1: &Child{}}, Daemon: sdk.Daemon(step),
	})
}

type (
	Spec   struct{ Name string }
	Status struct{ Name string }
	Child  struct{ A int }
	Name   string
	Names  []Name

	// Embedding has the methods of what it embeds.
	Embedding struct{ objects.Marked }
)

// ByHelper is passed to a helper only.
//
//thole:generate
type ByHelper struct{ A int }

// Handwritten has methods of its own.
type Handwritten struct{}

// DecodeJSON reads nothing.
func (*Handwritten) DecodeJSON(r *sdk.Reader) { r.Skip() }

// AppendJSON appends null.
func (Handwritten) AppendJSON(dst []byte) ([]byte, error) { return append(dst, "null"...), nil }

type request = sdk.Request[Spec, Status]

// applier is not the SDK's, and might do anything.
type applier interface{ Apply(object any) }

func reconcile(r *request) (sdk.Action, error) {
	certain(r)
	uncertain(r, nil)
	return sdk.AwaitChange(), reads(r)
}

func certain(r *request) {
	r.Apply(Child{})
	r.Apply(&Child{})
	r.Apply((*Child)(nil))
	r.Apply(sdk.Raw(`{}`))
	r.Apply([]byte(`{}`))
	r.Apply(objects.Marked{})
	r.Apply(Embedding{})
	r.Apply(Handwritten{})
	r.Patch(&Handwritten{})
	r.SetMemo(nil)
	r.SetMemo("text")
	r.SetMemo(1)
	r.SetMemo(int64(1))
	r.SetMemo(true)
	r.SetMemo([]string{})
	r.SetMemo(map[string]string{})
	r.SetMemo(Name("a"))
	r.SetMemo(Names{"a"})
	r.SetMemo(sdk.FromInt(1))
	r.Log.Info("not an argument of a codec", "map", map[string]any{})
	helpers.Apply(r.Run, ByHelper{})
	helpers.ApplyAll(r.Run, Child{}, &ByHelper{}, sdk.Raw(`{}`))
	helpers.ApplyList(r.Run, []any{Child{}})
	helpers.ApplyAll(r.Run, objectList{Child{}}...)
	helpers.ApplyAll(runAndObject(r))
	for _, object := range (objectList{&Child{}}) {
		r.Apply(object)
	}
	for _, object := range map[string]any{"a": Child{}} {
		r.Apply(object)
	}
	_, _ = helpers.Get[Child](r.Run, sdk.Ref{})
	_, _ = helpers.Get[sdk.Raw](r.Run, sdk.Ref{})
	_, _ = helpers.List[Child](r.Run, sdk.Query{})
	_, _ = helpers.List[objects.Marked](r.Run, sdk.Query{})
	for child, err := range read.Pages[Child](r.Run, sdk.Query{}, 1, read.Fields("spec")) {
		_, _ = child, err
	}
	helpers.Store[Names]{}.Put(nil)
	helpers.Store[any]{}.Put(Child{})
}

type objectList []any

func runAndObject(r *request) (*sdk.Run, any) { return r.Run, Child{} }

func reads(r *request) error {
	var child Child
	var children []Child
	var names Names
	var raw sdk.Raw
	var raws []sdk.Raw
	_ = raws
	_ = r.Get(sdk.Ref{}, &child)
	_ = r.Get(sdk.Ref{}, &raw)
	_ = r.Get(sdk.Ref{}, new(Handwritten))
	_ = r.List(sdk.Query{}, &children)
	_ = r.List(sdk.Query{}, &[]Handwritten{})
	_ = r.Config(&names)
	_, _ = r.Memo(new(string))
	return sdk.Decode(nil, &map[string]string{})
}

// uncertain passes values whose type depends on the run.
func uncertain(r *request, given any) {
	helpers.Inspect(r.Run, map[string]any{})
	helpers.Log(r.Run, map[string]any{})
	helpers.InspectType(r.Run, map[string]any{})
	applier(nil).Apply(map[string]any{})
	r.Apply(given)
	r.Apply(anything())
	var object any = map[string]any{}
	object = Child{}
	r.Apply(object)
	objects := []any{map[string]any{}}
	objects[0] = Child{}
	for _, object := range objects {
		r.Apply(object)
	}
	var changed any = map[string]any{}
	change(&changed)
	r.Apply(changed)
	if raw, ok := given.(sdk.Raw); ok {
		r.Apply(raw)
	}
	(*sdk.Run).Apply(r.Run, given)
	forever(r, map[string]any{})
	func(object any) { r.Apply(object) }(map[string]any{})
}

// forever passes its parameter to itself.
func forever(r *request, object any) { forever(r, object) }

func anything() any { return map[string]any{} }

func change(object *any) { *object = Child{} }

// State is that of a daemon.
type State struct{ A int }

type daemonStep = sdk.DaemonStep[Spec, Status]

func step(d *daemonStep, _ *State) error {
	var children []Child
	d.Signal(1)
	d.Signal(Child{})
	d.Signal(&objects.Marked{})
	_ = d.Get(sdk.Ref{}, new(sdk.Raw))
	_ = d.List(sdk.Query{}, &children)
	return d.Config(&children)
}

// The states of these daemons have a codec, or need none.
var (
	_ = sdk.Daemon(func(*daemonStep, *Child) error { return nil })
	_ = sdk.Daemon(func(*daemonStep, *Names) error { return nil })
	_ = sdk.Daemon(func(*daemonStep, *struct{}) error { return nil })
	_ = sdk.Daemon(func(*daemonStep, *int) error { return nil })
	_ = sdk.Daemon[[]string](func(*daemonStep, *[]string) error { return nil })
	_ = sdk.Daemon[sdk.Raw, Spec, Status](func(*daemonStep, *sdk.Raw) error { return nil })
	_ = sdk.Daemon(func(*daemonStep, *Handwritten) error { return nil })
	_ = sdk.Daemon(func(*daemonStep, *objects.Marked) error { return nil })
	_ = daemonOf(ByHelper{})
)

func scan(s *sdk.Scanning) error {
	var children []Child
	s.Signal("", "one", 1)
	s.Signal("", "one", &Child{})
	_ = s.Get(sdk.Ref{}, new(sdk.Raw))
	_ = s.List(sdk.Query{}, &children)
	if _, err := sdk.Primaries[Spec, Status](s, sdk.Query{}); err != nil {
		return err
	}
	return s.Config(&children)
}

var _ = sdk.Scan("due", 0, scan)

type object = sdk.Object[Spec, Status]

func review(r *sdk.Review, _, _ *object) error {
	var children []Child
	_ = r.Get(sdk.Ref{}, new(sdk.Raw))
	_ = r.List(sdk.Query{}, &children)
	return r.Config(&children)
}

// The types of these versions have a codec.
var (
	_ = sdk.Validate(review)
	_ = sdk.Mutate(review)
	_ = sdk.Version("v2",
		func(*sdk.Object[Child, Handwritten], *object) error { return nil },
		func(*object, *sdk.Object[Child, Handwritten]) error { return nil })
	_ = versionOf(objects.Marked{})
)

func versionOf[Other any](Other) sdk.VersionOf[Spec, Status] {
	return sdk.Version("v3",
		func(*sdk.Object[Other, Status], *object) error { return nil },
		func(*object, *sdk.Object[Other, Status]) error { return nil })
}

func daemonOf[State any](State) *sdk.DaemonOf[Spec, Status] {
	return sdk.Daemon(func(*daemonStep, *State) error { return nil })
}

func main() {}
