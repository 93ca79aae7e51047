package handlers

import (
	"strconv"
	"time"
)

// cause is what a handler is registered for.
type cause int

const (
	onCreate cause = iota
	onUpdate
	onResume
	onDelete
	onField
	onTimer
	onEvent
)

// Handler is one handler. Its methods narrow when it is called, and determine what follows
// an error; all return the handler. All filters must match.
type Handler[Spec, Status any] struct {
	on       cause
	name     string
	fn       Func[Spec, Status]
	path     []string      // of onField
	interval time.Duration // of onTimer
	optional bool          // of onDelete
	filters  []func(*Call[Spec, Status]) bool
	policy

	readsStatus bool // its path or a filter is for a field of the status
}

// Labels is a filter by a label of the object, such as Labels("tier", Value("web")).
func (h *Handler[Spec, Status]) Labels(name string, m Match) *Handler[Spec, Status] {
	return h.filter(m, func(c *Call[Spec, Status]) (string, bool) {
		value, ok := c.Labels[name]
		return value, ok
	})
}

// Annotations is a filter by an annotation of the object.
func (h *Handler[Spec, Status]) Annotations(name string, m Match) *Handler[Spec, Status] {
	return h.filter(m, func(c *Call[Spec, Status]) (string, bool) {
		value, ok := c.Annotations[name]
		return value, ok
	})
}

// Field is a filter by the value that the object has at a path now, such as
// Field("spec.mode", Value("fast")).
func (h *Handler[Spec, Status]) Field(path string, m Match) *Handler[Spec, Status] {
	names := h.mustParse(path)
	h.readsStatus = h.readsStatus || names[0] == "status"
	return h.filter(m, func(c *Call[Spec, Status]) (string, bool) { return textOf(c.pass.value(names)) })
}

// Old is a filter by the value that the object had at a path when it was handled last. If the
// old object is not known, the value is absent.
func (h *Handler[Spec, Status]) Old(path string, m Match) *Handler[Spec, Status] {
	names := h.mustParse(path)
	return h.filter(m, func(c *Call[Spec, Status]) (string, bool) { return textOf(valueAt(c.pass.old, names)) })
}

// When is a filter by a function, which must have no effect: it may be called without the
// handler being called.
func (h *Handler[Spec, Status]) When(matches func(*Call[Spec, Status]) bool) *Handler[Spec, Status] {
	if matches == nil {
		h.panic("When has no function")
	}
	h.filters = append(h.filters, matches)
	return h
}

func (h *Handler[Spec, Status]) filter(m Match, value func(*Call[Spec, Status]) (string, bool)) *Handler[Spec, Status] {
	if m == nil {
		h.panic("a filter has no Match")
	}
	h.filters = append(h.filters, func(c *Call[Spec, Status]) bool { return m(value(c)) })
	return h
}

// matches reports whether all filters match.
func (h *Handler[Spec, Status]) matches(c *Call[Spec, Status]) bool {
	for _, f := range h.filters {
		if !f(c) {
			return false
		}
	}
	return true
}

// Retries limits how often the handler is called for one change, the first time included.
// After that it has failed. Default: no limit.
func (h *Handler[Spec, Status]) Retries(tries int) *Handler[Spec, Status] {
	h.retries = h.atLeast("Retries", tries, 1)
	return h
}

// Timeout limits the time from the first call for a change to the last: if the next one would
// be later, the handler has failed. Default: no limit. It does not end a call that is
// running; see Timeout of [sdk.Controller].
func (h *Handler[Spec, Status]) Timeout(d time.Duration) *Handler[Spec, Status] {
	h.timeout = h.atLeastDuration("Timeout", d)
	return h
}

// Backoff is the time from a call that returned an error to the next one. Default: half a
// second, doubling up to 15 minutes.
func (h *Handler[Spec, Status]) Backoff(d time.Duration) *Handler[Spec, Status] {
	h.backoff = h.atLeastDuration("Backoff", d)
	return h
}

// Errors determines what follows an error that does not determine it itself, as [Permanent],
// [Temporary] and [sdk.Waiting] do. Default: [ErrorsRetry].
func (h *Handler[Spec, Status]) Errors(mode ErrorMode) *Handler[Spec, Status] {
	h.errors = mode
	return h
}

// Optional makes a handler of OnDelete do without the finalizer. It is called for an object
// that is gone, see Gone of [sdk.Controller], or in the cleanup if other handlers have one.
func (h *Handler[Spec, Status]) Optional() *Handler[Spec, Status] {
	if h.on != onDelete {
		h.panic("Optional is for OnDelete")
	}
	h.optional = true
	return h
}

func (h *Handler[Spec, Status]) atLeast(option string, n, least int) int {
	if n < least {
		h.panic(option + " is " + strconv.Itoa(n) + ": at least " + strconv.Itoa(least))
	}
	return n
}

func (h *Handler[Spec, Status]) atLeastDuration(option string, d time.Duration) time.Duration {
	if d <= 0 {
		h.panic(option + " is " + d.String() + ": more than 0")
	}
	return d
}

// mustParse returns the names of a path, which must be valid.
func (h *Handler[Spec, Status]) mustParse(path string) []string {
	names, ok := parsePath(path)
	if !ok {
		h.panic("path " + strconv.Quote(path) +
			": expected names of letters, digits, '-' and '_', separated by dots, such as spec.replicas")
	}
	return names
}

func (h *Handler[Spec, Status]) panic(why string) {
	panic("handlers: handler " + strconv.Quote(h.name) + ": " + why)
}

// ofStatus reports whether it is a handler for a field of the status.
func (h *Handler[Spec, Status]) ofStatus() bool { return h.on == onField && h.path[0] == "status" }
