package cache

import (
	"errors"
	"sync"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// health is how an informer gets along with the API server. It logs a change,
// not each failed attempt.
type health struct {
	log hclog.Logger

	mu    sync.Mutex
	err   error  // nil while all is well
	state string // class of err: another one is a change
}

func (h *health) fail(err error) {
	state := classify(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	if state != h.state {
		h.log.Warn("cannot follow the kind, trying again", "reason", state, "error", err)
	}
	h.err, h.state = err, state
}

func (h *health) ok() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		h.log.Info("following the kind again", "after", h.state)
	}
	h.err, h.state = nil, ""
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
