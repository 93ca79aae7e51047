package handlers

import (
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/content"
)

// This file decides what has changed: abi/changes/SPEC.md.

// caused reports whether a handler is called for the change of the run.
func (p *pass[Spec, Status]) caused(o *Handler[Spec, Status], c *Call[Spec, Status]) bool {
	if p.change == sdk.Deleted {
		return o.on == onEvent || o.on == onDelete && (o.optional || p.cleanup)
	}
	switch o.on {
	case onCreate:
		return p.change == sdk.Created
	case onUpdate:
		return p.change == sdk.Updated || p.change == sdk.Resumed && p.changedUnseen()
	case onResume:
		return p.change == sdk.Resumed
	case onField:
		return p.fieldChanged(o, c)
	case onTimer:
		return p.r.Due(o.name)
	case onEvent:
		return true
	case onDelete:
	}
	return false
}

// changedUnseen reports whether an object has changed before the host began to reconcile it. With
// the annotation the host has the old object of each one that has not, so that it may have
// changed if there is none.
func (p *pass[Spec, Status]) changedUnseen() bool {
	if p.old == nil {
		return p.annotated
	}
	return len(p.diff()) > 0
}

// fieldChanged reports whether the value at the path of a handler has changed.
func (p *pass[Spec, Status]) fieldChanged(o *Handler[Spec, Status], c *Call[Spec, Status]) bool {
	switch {
	case o.ofStatus():
		return p.status.changed(o.name, c.NewValue)
	case p.change == sdk.Created:
		return c.NewValue != nil
	case p.old == nil:
		return p.change == sdk.Updated || p.change == sdk.Resumed && p.changedUnseen()
	}
	return len(Diff(c.OldValue, c.NewValue)) > 0
}

// value returns the present value at a path of the object. The status is that of the run so
// far if there are handlers for its fields.
func (p *pass[Spec, Status]) value(path []string) []byte {
	if p.status != nil && path[0] == "status" {
		return valueAt(p.status.now(), path[1:])
	}
	return valueAt(p.r.Object(), path)
}

// diff returns the differences between the old object and the present one.
func (p *pass[Spec, Status]) diff() []DiffItem {
	if !p.diffed {
		p.items, p.diffed = Diff(content.Of(p.old), content.Of(p.r.Object())), true
	}
	return p.items
}
