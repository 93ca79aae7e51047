package cache

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/thole-dev/thole/host/internal/explain"
)

// health is how an informer gets along with the API server. It logs a change,
// not each failed attempt.
type health struct {
	log hclog.Logger

	mu    sync.Mutex
	err   error         // nil while all is well
	state string        // class of err: another one is a change
	bad   chan struct{} // closed while err is set
}

func newHealth(log hclog.Logger) *health { return &health{log: log, bad: make(chan struct{})} }

// fail notes a failed request. The first of a class stands for those that
// follow: it is told once, and reads the same each time.
func (h *health) fail(err error) {
	state := classify(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	if state == h.state {
		return
	}
	if h.err == nil {
		close(h.bad)
	}
	h.err, h.state = advise(err), state
	h.log.Warn("cannot follow the kind, trying again", "reason", state, "error", h.err)
}

// listed notes a list that went well. Who may list may still not watch: a
// missing right is there only when a watch has begun.
func (h *health) listed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != string(metav1.StatusReasonForbidden) {
		h.recovered()
	}
}

// ok notes a watch that has begun.
func (h *health) ok() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recovered()
}

// recovered notes that all is well. h.mu is held.
func (h *health) recovered() {
	if h.err != nil {
		h.log.Info("following the kind again", "after", h.state)
		h.bad = make(chan struct{})
	}
	h.err, h.state = nil, ""
}

// failing returns a channel that is closed as long as there is a failure.
func (h *health) failing() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bad
}

func (h *health) last() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// classify says in a word why a request failed.
func classify(err error) string {
	var unknown *UnknownKindError
	switch reason := apierrors.ReasonForError(err); {
	case errors.As(err, &unknown):
		return "KindNotServed"
	case reason != "":
		return string(reason)
	case errors.Is(err, errStalled):
		return "Stalled"
	case utilnet.IsConnectionRefused(err):
		return "ConnectionRefused"
	}
	return "Unreachable"
}

// advise says what to do about a missing right. An informer needs both verbs:
// who adds one should not have to come back for the other.
func advise(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	right, ok := explain.MissingRight(err.Error())
	if !ok {
		return err
	}
	return fmt.Errorf("%s (%w)", right.Advice("list", "watch"), err)
}
