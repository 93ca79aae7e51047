// Package helpers has functions that pass their arguments to the SDK.
package helpers

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/children"
)

// Apply passes its parameter on.
func Apply(r *sdk.Run, object sdk.Value) { r.Apply(object) }

// ApplyAll passes the elements of its parameter on.
func ApplyAll(r *sdk.Run, objects ...sdk.Value) {
	for _, object := range objects {
		Apply(r, object)
	}
}

// Get reads an object of any type.
func Get[T any](r *sdk.Run, ref sdk.Ref) (object T, err error) {
	err = r.Get(ref, &object)
	return object, err
}

// List is generic and calls another generic function.
func List[T any](r *sdk.Run, query sdk.Query) ([]T, error) { return list[[]T](r, query) }

func list[L any](r *sdk.Run, query sdk.Query) (objects L, err error) {
	err = r.List(query, &objects)
	return objects, err
}

// Store has the type parameter of its methods.
type Store[T any] struct{ Run *sdk.Run }

// Put is a method of a generic type.
func (s Store[T]) Put(value T) { s.Run.SetMemo(value) }

// Group applies to a group of children.
type Group struct {
	children.Group
	Run *sdk.Run
}

// Add is another way to [children.Group.Apply].
func (g Group) Add(object sdk.Value) { g.Apply(g.Run, object) }
