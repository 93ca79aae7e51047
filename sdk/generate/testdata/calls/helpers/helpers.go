// Package helpers has functions that pass their arguments to the SDK.
package helpers

import (
	"fmt"

	"github.com/thole-dev/thole/sdk"
)

// Apply passes its parameter on.
func Apply(r *sdk.Run, object any) { r.Apply(object) }

// ApplyAll passes the elements of its parameter on.
func ApplyAll(r *sdk.Run, objects ...any) {
	for _, object := range objects {
		Apply(r, object)
	}
}

// ApplyList passes the elements of its parameter on.
func ApplyList(r *sdk.Run, objects []any) { ApplyAll(r, objects...) }

// Inspect looks at its parameter, and might pass on only values with a codec.
func Inspect(r *sdk.Run, object any) {
	if _, isMap := object.(map[string]any); !isMap {
		r.Apply(object)
	}
}

// Log uses its parameter elsewhere too.
func Log(r *sdk.Run, object any) {
	_ = fmt.Sprint(object)
	r.Apply(object)
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

// InspectType looks at its type parameter.
func InspectType[T any](r *sdk.Run, object T) {
	switch any(object).(type) {
	case map[string]any:
	default:
		r.Apply(object)
	}
}

// Store has the type parameter of its methods.
type Store[T any] struct{ Run *sdk.Run }

// Put is a method of a generic type.
func (s Store[T]) Put(value T) { s.Run.SetMemo(value) }
