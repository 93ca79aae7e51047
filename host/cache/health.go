package cache

import (
	"errors"
	"sync"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/object"
)

// health records whether the requests of an informer succeed. It logs when
// that changes, not every failed request.
type health struct {
	log         hclog.Logger
	outageEnded func() // called after a failure that was an outage
	polled      bool   // the kind needs no watch

	mu     sync.Mutex
	err    error         // nil while requests succeed
	reason string        // class of err, see classify
	outage bool          // the API server could not be reached or was overloaded, at any time since err is set
	failed chan struct{} // closed while err is set
}

func newHealth(log hclog.Logger, outageEnded func()) *health {
	return &health{log: log, outageEnded: outageEnded, failed: make(chan struct{})}
}

// fail records a failed request. Of consecutive failures for the same reason
// only the first one is logged and kept.
func (h *health) fail(err error) {
	reason := classify(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outage = h.outage || explain.Outage(err) || errors.Is(err, errStalled)
	if reason == h.reason {
		return
	}
	if h.err == nil {
		close(h.failed)
	}
	// The rule has all verbs that an informer needs, though the API server
	// refuses one at a time.
	h.err, h.reason = explain.Forbidden(err, h.verbs()...), reason
	h.log.Warn("cannot "+h.verb()+" the kind, retrying", "reason", reason, "error", h.err)
}

// verbs returns the verbs that an informer needs.
func (h *health) verbs() []string {
	if h.polled {
		return []string{"list"}
	}
	return []string{"list", "watch"}
}

// verb returns the verb by which an informer sees changes.
func (h *health) verb() string {
	verbs := h.verbs()
	return verbs[len(verbs)-1]
}

// listed records a successful list. It does not end a failure for want of a
// right: a user that may list may still not watch.
func (h *health) listed() {
	h.succeed(func() bool { return h.reason != string(metav1.StatusReasonForbidden) })
}

// watching records a watch that has begun, or a list of a kind that needs no watch.
func (h *health) watching() { h.succeed(func() bool { return true }) }

// succeed ends a failure if the success of a request shows that it has ended,
// which ends is called for with mu held.
func (h *health) succeed(ends func() bool) {
	h.mu.Lock()
	ended := ends() && h.clear()
	h.mu.Unlock()
	if ended {
		h.outageEnded()
	}
}

// clear ends a failure, and reports whether it was an outage. h.mu must be held.
func (h *health) clear() (outageEnded bool) {
	if h.err != nil {
		h.log.Info("the kind can be followed again", "after", h.reason)
		h.failed = make(chan struct{})
	}
	outageEnded = h.outage
	h.err, h.reason, h.outage = nil, "", false
	return outageEnded
}

// failing returns a channel that is closed while there is a failure.
func (h *health) failing() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed
}

func (h *health) lastError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// classify returns the reason for a failed request in one word.
func classify(err error) string {
	_, unknown := errors.AsType[*object.UnknownKindError](err)
	_, otherScope := errors.AsType[*otherScopeError](err)
	switch reason := apierrors.ReasonForError(err); {
	case unknown:
		return "KindNotServed"
	case otherScope:
		return "OtherScope"
	case reason != "":
		return string(reason)
	case errors.Is(err, errStalled):
		return "Stalled"
	case utilnet.IsConnectionRefused(err):
		return "ConnectionRefused"
	}
	return "Unreachable"
}
