package abi

import (
	"cmp"
	"iter"
	"slices"
	"strconv"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// The checks of the messages of calls against SPEC.md, "get", and spec/reads.md, "list". They return the
// first error.

func (c *GetCall) check() error { return cmp.Or(c.Ref.check(), checkFields(c.Fields)) }

func (c *ListCall) check() error {
	return cmp.Or(
		Kind{c.APIVersion, c.Kind}.check(),
		message.CheckLength("namespace", len(c.Namespace), MaxName),
		message.CheckLength("labelSelector", len(c.LabelSelector), MaxSelector),
		rawjson.Within("fieldSelector", checkFieldSelector(c.FieldSelector)),
		checkFields(c.Fields),
		message.CheckLength("continue", len(c.Continue), MaxContinue),
		c.OwnedBy.check(),
	)
}

func checkFields(fields []string) error {
	return message.CheckEach("fields", fields, func(field string) error {
		if err := message.CheckLength("", len(field), MaxFieldPath); err != nil {
			return err
		}
		return fieldpath.CheckPointer(field)
	})
}

// checkFieldSelector does not check that the fields have an index, which depends on the
// controller.
func checkFieldSelector(text string) error {
	selector, err := fieldpath.ParseSelector(text)
	if err == nil && len(selector) > MaxRequirements {
		err = rawjson.NewError("", strconv.Itoa(len(selector))+" requirements, the limit is "+strconv.Itoa(MaxRequirements))
	}
	return err
}

// MayRead reports whether get and list may read objects of the kind.
func (c *Controller) MayRead(kind Kind) bool {
	for w := range c.Follows() {
		if w.Kind == kind {
			return true
		}
	}
	return false
}

// Follows yields for, and the entries of owns, reads and watches.
func (c *Controller) Follows() iter.Seq[Followed] {
	return func(yield func(Followed) bool) {
		if !yield(c.For) {
			return
		}
		for _, all := range [][]Followed{c.Owns, c.Reads} {
			for _, w := range all {
				if !yield(w) {
					return
				}
			}
		}
		for _, w := range c.Watches {
			if !yield(w.Followed) {
				return
			}
		}
	}
}

// IsOwned reports whether the kind is one of owns.
func (c *Controller) IsOwned(kind Kind) bool {
	return slices.ContainsFunc(c.Owns, func(w Followed) bool { return w.Kind == kind })
}

// CheckSelector returns an error unless a list of objects of the kind can have the
// selector: each of its fields is metadata.name, metadata.namespace, or has an index, or
// the manifest has the same requirement. The host returns [CodeInvalid] to the guest if
// there is an error.
func (c *Controller) CheckSelector(kind Kind, selector fieldpath.Selector) error {
	for _, r := range selector {
		field := r.Path.String()
		known := []string{"metadata.name", "metadata.namespace"}
		for _, x := range c.Indexes {
			if x.Kind == kind && x.Field != "" {
				known = append(known, x.Field)
			}
		}
		if !slices.Contains(known, field) && !c.requires(kind, r) {
			return rawjson.NewError("fieldSelector", rawjson.Quote(field)+" is not the field of an index of the controller for "+
				rawjson.Quote(kind.String())+rawjson.DidYouMean(field, known))
		}
	}
	return nil
}

// requires reports whether the manifest has the requirement for objects of the kind.
func (c *Controller) requires(kind Kind, r fieldpath.Requirement) bool {
	for w := range c.Follows() {
		selector, _ := fieldpath.ParseSelector(w.FieldSelector) // was checked with the manifest
		if w.Kind == kind && slices.ContainsFunc(selector, r.Equal) {
			return true
		}
	}
	return false
}
