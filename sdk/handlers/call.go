package handlers

import (
	"slices"
	"time"

	"github.com/thole-dev/thole/sdk"
)

// Call is one call of a handler. Spec, Status and all the rest of the request are the new
// object; the calls of one run share them, and make one result.
type Call[Spec, Status sdk.Value] struct {
	*sdk.Request[Spec, Status]

	// Handler is the name of the handler.
	Handler string
	// Reason is the type of the change that the run is for.
	Reason sdk.ChangeType
	// Old is the object as it was handled last. It is nil if it was not, or if the host does
	// not have it. It has no status with [sdk.ChangesAnnotation].
	Old *sdk.Object[Spec, Status]
	// OldValue and NewValue are those at the path of a handler of OnField, nil if there is
	// none.
	OldValue, NewValue sdk.Raw
	// Retry counts the calls of the handler for this change before this one.
	Retry int
	// Started is when the handler was called first for this change.
	Started time.Time

	pass *pass[Spec, Status]
	path []string // of OnField
}

// Diff returns how the object differs from Old: in its labels, annotations and everything
// else but metadata and status, or for a handler of OnField in the value at its path.
// Without Old, everything was added.
func (c *Call[Spec, Status]) Diff() []DiffItem {
	if c.path == nil {
		return c.pass.diff()
	}
	items := Diff(c.OldValue, c.NewValue)
	for i := range items {
		items[i].Path = append(slices.Clip(c.path), items[i].Path...)
	}
	return items
}
