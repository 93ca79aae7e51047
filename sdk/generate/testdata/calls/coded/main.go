// Command coded passes only values to the SDK that have a codec.
package main

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/children"
	"github.com/thole-dev/thole/sdk/generate/testdata/calls/api"
	"github.com/thole-dev/thole/sdk/generate/testdata/calls/helpers"
	"github.com/thole-dev/thole/sdk/operator"
)

func init() {
	register(sdk.Controller[api.Spec, struct{}]{
		Reconcile: reconcile, Warm: []sdk.Value{Warm{}}, Daemon: sdk.Daemon(step),
	})
}

// Each type is passed in the way of its name.
type (
	Warm         struct{ A int }
	Applied      struct{ A int }
	Pointed      struct{ A int }
	Grouped      struct{ A int }
	Added        struct{ A int }
	Helped       struct{ A int }
	Argument     struct{ A int }
	Variable     struct{ A int }
	Assigned     struct{ A int }
	Returned     struct{ A int }
	Field        struct{ A int }
	Element      struct{ A int }
	Key          struct{ A int }
	Sent         struct{ A int }
	Ranged       struct{ A int }
	Second       struct{ A int }
	Variadic     struct{ A int }
	Appended     struct{ A int }
	Closure      struct{ A int }
	Got          struct{ A int }
	Listed       struct{ A int }
	Paged        struct{ A int }
	Stored       struct{ A int }
	ByConstraint struct{ A int }
	State        struct{ A int }
	Method       struct{ A int }
	Result       struct{ A int }
	Converted    struct{ A int }
	Interface    struct{ A int }
	Alias        struct{ A int }

	Names []string // a named slice
)

// Handwritten has methods of its own.
type Handwritten struct{}

// DecodeJSON reads nothing.
func (*Handwritten) DecodeJSON(r *sdk.Reader) { r.Skip() }

// AppendJSON appends null.
func (Handwritten) AppendJSON(dst []byte) ([]byte, error) { return append(dst, "null"...), nil }

// register is a function of the author's own.
func register[S, T any](c sdk.Controller[S, T]) { sdk.Register(c) }

type (
	request = sdk.Request[api.Spec, struct{}]
	alias   = Alias
	applier interface {
		Apply(object sdk.Value, options ...sdk.ApplyOption)
	}
	holder struct{ object sdk.Value }
)

func reconcile(r *request) (sdk.Action, error) {
	direct(r)
	converted(r)
	plain(r)
	return sdk.AwaitChange(), reads(r)
}

func direct(r *request) {
	r.Apply(Applied{})
	r.Apply(&Pointed{})
	r.Apply(alias{})
	r.Apply(api.Object{})
	r.Apply(Handwritten{})
	apply := r.Apply
	apply(Method{})
	applier(r.Run).Apply(Interface{})
	children.Group{}.Apply(r.Run, Grouped{})
	helpers.Group{}.Add(Added{})
	helpers.Apply(r.Run, Helped{})
	helpers.ApplyAll(r.Run, Variadic{})
	helpers.ApplyAll(runAndObject(r))
	helpers.Store[Stored]{}.Put(Stored{})
	_ = operator.Result{State: Result{}}
}

func runAndObject(r *request) (*sdk.Run, Second) { return r.Run, Second{} }

func converted(r *request) {
	var variable sdk.Value = Variable{}
	r.Apply(variable)
	var assigned sdk.Value
	assigned = Assigned{}
	r.Apply(assigned)
	returned := func() sdk.Value { return Returned{} }
	r.Apply(returned())
	r.Apply(holder{Field{}}.object)
	list := []sdk.Value{Element{}}
	list = append(list, Appended{})
	r.Apply(list[0])
	for key := range map[sdk.Value]bool{Key{}: true} {
		r.Apply(key)
	}
	channel := make(chan sdk.Value, 1)
	channel <- Sent{}
	var ranged sdk.Value
	for _, ranged = range []Ranged{{}} {
		r.Apply(ranged)
	}
	r.Apply(sdk.Value(Converted{}))
	func(object sdk.Value) { r.Apply(object) }(Closure{})
}

// plain passes what needs no codec.
func plain(r *request) {
	r.Apply(sdk.Raw(`{}`))
	r.Apply([]byte(`{}`))
	r.SetMemo(nil)
	r.SetMemo("text")
	r.SetMemo(1)
	r.SetMemo(true)
	r.SetMemo(new("text"))
	r.SetMemo([]string{})
	r.SetMemo(map[string]string{})
	r.SetMemo(Names{"a"})
	r.SetMemo(sdk.FromInt(1))
	r.Log.Info("not a value of the SDK", "map", map[string]any{})
}

func reads(r *request) error {
	var listed []Listed
	_ = r.List(sdk.Query{}, &listed)
	_, _ = helpers.Get[Got](r.Run, sdk.Ref{})
	_, _ = helpers.List[ByConstraint](r.Run, sdk.Query{})
	for page, err := range sdk.Pages[Paged](r.Run, sdk.Query{}, 1) {
		_, _ = page, err
	}
	return r.Config(&Argument{})
}

func step(*sdk.DaemonStep[api.Spec, struct{}], *State) error { return nil }

func main() {}
