package receives

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	contract "github.com/thole-dev/thole/abi/receives"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/object"
)

// This file finds the primaries of an event that the caller may make run.

// target is what one event makes run.
type target struct {
	receiver Receiver
	keys     []object.Key
	event    *received
}

const (
	// maxObjects bounds the primaries of one controller that one event makes run.
	maxObjects = 1000
	// maxValues bounds by how many keys of an index they are found.
	maxValues = 64
	// maxNameLength is that of objects in the API server.
	maxNameLength = 253
)

// accepts reports whether an event is of a sort.
func accepts(sort contract.Receive, e *received) bool {
	return (sort.Type == "" || sort.Type == e.Type()) && (sort.DataSchema == "" || sort.DataSchema == e.DataSchema())
}

// missed is why controllers that receive an event do not run for it.
type missed struct {
	missing, forbidden bool
	malformed          *refusal
}

// resolve returns what an event makes run, of the controllers of receivers.
func (h *Handler) resolve(ctx context.Context, caller *access.Caller, e *received, receivers []Receiver) (targets []target, _ *refusal) {
	matching := slices.DeleteFunc(slices.Clone(receivers), func(r Receiver) bool {
		return !slices.ContainsFunc(r.Receives, func(sort contract.Receive) bool { return accepts(sort, e) })
	})
	if len(matching) == 0 {
		return nil, refuse(http.StatusNotFound, "no controller that runs receives events of the type %s", quoted(e.Type()))
	}
	for _, r := range matching {
		if !r.takes() {
			return nil, notHere(r)
		}
	}
	why := missed{}
	for _, r := range matching {
		keys, refused := h.primaries(ctx, caller, e, r, &why)
		if refused != nil {
			return nil, refused.of(r.Plugin)
		}
		if len(keys) > 0 {
			targets = append(targets, target{r, keys, e})
		}
	}
	if len(targets) == 0 {
		return nil, why.refusal(e, matching[0]).of(matching[0].Plugin)
	}
	return targets, nil
}

// refusal returns why an event makes nothing run.
func (m missed) refusal(e *received, r Receiver) *refusal {
	switch {
	case m.missing:
		return refuse(http.StatusNotFound, "there is no object for the event %s", quoted(e.ID()))
	case m.forbidden:
		return refuse(http.StatusForbidden, "the user may not make the object run: give it the verb %s on %s in a Role", access.Reconcile, r.Controller.Resource().GVR.GroupResource())
	}
	return m.malformed
}

// primaries returns the primaries of one controller that an event makes run, and notes for which reasons
// others do not.
func (h *Handler) primaries(ctx context.Context, caller *access.Caller, e *received, r Receiver, why *missed) (keys []object.Key, _ *refusal) {
	for _, sort := range r.Receives {
		var found []object.Key
		var refused *refusal
		switch {
		case !accepts(sort, e):
			continue
		case sort.Resolve == nil:
			found, refused = h.bySubject(ctx, caller, e, r, why)
		default:
			found, refused = h.byIndex(ctx, caller, e, r, sort.Resolve)
			why.missing = why.missing || len(found) == 0
		}
		if refused != nil {
			return nil, refused
		}
		keys = append(keys, found...)
	}
	slices.SortFunc(keys, object.Key.Compare)
	return slices.Compact(keys), nil
}

// bySubject returns the primary that the subject of an event names. Whether it is there is looked at
// last.
func (h *Handler) bySubject(ctx context.Context, caller *access.Caller, e *received, r Receiver, why *missed) ([]object.Key, *refusal) {
	key, ok := keyOf(e.Subject(), r.Controller.Resource().Namespaced)
	if !ok {
		form := "the namespace, a slash and the name of an object"
		if !r.Controller.Resource().Namespaced {
			form = "the name of an object"
		}
		why.malformed = refuse(http.StatusBadRequest, "subject: %s is not %s", quoted(e.Subject()), form)
		return nil, nil
	}
	switch allowed, refused := h.may(ctx, caller, r, key); {
	case refused != nil:
		return nil, refused
	case !allowed:
		why.forbidden = true
		return nil, nil
	case !r.Controller.Has(key):
		why.missing = true
		return nil, nil
	}
	return []object.Key{key}, nil
}

// byIndex returns the primaries that have a key of an index, of those that the caller may make run.
func (h *Handler) byIndex(ctx context.Context, caller *access.Caller, e *received, r Receiver, by *contract.Resolve) (keys []object.Key, _ *refusal) {
	from, err := fieldpath.ParsePath(by.From)
	if err != nil {
		return nil, refuse(http.StatusNotFound, "there is no object for the event: %s", shown(err)) // cannot happen: the manifest was checked
	}
	values := from.Values(e.json)
	if len(values) > maxValues {
		return nil, refuse(http.StatusRequestEntityTooLarge, "the event has %d values at %s, of %d that are looked for", len(values), by.From, maxValues)
	}
	var found []object.Key
	for _, value := range values {
		some, err := r.Controller.Resolve(by.Index, value, maxObjects+1)
		if err != nil {
			return nil, busy("the index %s of the plugin %s cannot be read now: try again", quoted(by.Index), quoted(r.Plugin)).because(err)
		}
		if found = append(found, some...); len(found) > maxObjects {
			return nil, refuse(http.StatusRequestEntityTooLarge, "the event is for more than %d objects: find them by another index", maxObjects)
		}
	}
	for _, key := range found {
		switch allowed, refused := h.may(ctx, caller, r, key); {
		case refused != nil:
			return nil, refused
		case allowed:
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// may reports whether a caller may make a primary run.
func (h *Handler) may(ctx context.Context, caller *access.Caller, r Receiver, key object.Key) (bool, *refusal) {
	allowed, err := h.Access.MayReconcile(ctx, caller, r.Controller.Resource(), key)
	switch {
	case err == nil:
		return allowed, nil
	case access.TooOften(err):
		limited := refuse(http.StatusTooManyRequests, "the rights to too many objects are looked up one by one: give the user a right to all of a namespace, or send fewer events")
		limited.again = retryLimited
		return false, limited
	}
	return false, busy("the API server cannot be asked what the user may do: try again").because(err)
}

// keyOf returns the key that a subject names.
func keyOf(subject string, namespaced bool) (key object.Key, ok bool) {
	key.Name = subject
	if namespaced {
		key.Namespace, key.Name, ok = strings.Cut(subject, "/")
		if !ok || !abi.ValidName(key.Namespace) {
			return key, false
		}
	}
	odd := strings.ContainsFunc(key.Name, func(c rune) bool { return c <= ' ' || c >= 0x7f })
	return key, key.Name != "" && len(key.Name) <= maxNameLength && !odd && len(content.IsPathSegmentName(key.Name)) == 0
}
