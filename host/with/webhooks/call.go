package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/sanitize"
)

const (
	// maxCalls bounds the calls of all plugins that execute, or wait for an instance or an execution
	// slot, and maxPluginCalls those of one.
	maxCalls       = 1024
	maxPluginCalls = 128
	// maxWaiting bounds the calls of one plugin that wait for one of these places, lest a plugin
	// that spins holds all connections.
	maxWaiting = 128
)

// calls bounds the calls in flight.
type calls struct {
	all *semaphore.Weighted

	mu       sync.Mutex
	byPlugin map[string]*pluginCalls // that have some
}

// pluginCalls bounds those of one plugin.
type pluginCalls struct {
	room *semaphore.Weighted
	n    int // that are in flight or wait for a place; guarded by calls.mu
}

func newCalls() *calls {
	return &calls{all: semaphore.NewWeighted(maxCalls), byPlugin: map[string]*pluginCalls{}}
}

// begin waits for a place for one more call until ctx is done. end frees it.
func (c *calls) begin(ctx context.Context, plugin string) (end func(), err error) {
	p := c.enter(plugin)
	if p == nil {
		return nil, fmt.Errorf("%d of its reviews are in flight or wait, which is the most that there may be", maxPluginCalls+maxWaiting)
	}
	if p.room.Acquire(ctx, 1) != nil {
		c.leave(plugin, p)
		return nil, fmt.Errorf("%d of its reviews are in flight, which is the most that there may be, and none has ended in the time that the API server waits", maxPluginCalls)
	}
	if c.all.Acquire(ctx, 1) != nil {
		p.room.Release(1)
		c.leave(plugin, p)
		return nil, fmt.Errorf("%d reviews of all plugins are in flight, which is the most that there may be, and too few have ended in the time that the API server waits", maxCalls)
	}
	return func() {
		c.all.Release(1)
		p.room.Release(1)
		c.leave(plugin, p)
	}, nil
}

// enter counts one more call of a plugin. It returns nil if there are too many.
func (c *calls) enter(plugin string) *pluginCalls {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.byPlugin[plugin]
	if p == nil {
		p = &pluginCalls{room: semaphore.NewWeighted(maxPluginCalls)}
		c.byPlugin[plugin] = p
	}
	if p.n == maxPluginCalls+maxWaiting {
		return nil
	}
	p.n++
	return p
}

func (c *calls) leave(plugin string, p *pluginCalls) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.n--; p.n == 0 {
		delete(c.byPlugin, plugin)
	}
}

// errNoReviews is returned while a revision runs that does not have the export.
var errNoReviews = errors.New("the running revision does not have it")

// errNotRunning is returned for a call of a plugin, or of a controller, that does not run.
var errNotRunning = errors.New("does not run")

// call calls the plugin. The error is for people.
func (s *Server) call(ctx context.Context, q *request, v dispatch.ExportCall) (sandbox.Return, error) {
	end, err := s.calls.begin(ctx, q.plugin)
	if err != nil {
		return sandbox.Return{}, err
	}
	defer end()
	v.Export, v.Timeout = q.export, q.known.Webhooks.Timeout.Duration
	begin := v.Begin
	for {
		c := s.controllerOf(ctx, q)
		if c == nil {
			return sandbox.Return{}, errNotRunning
		}
		v.Begin = func(rev *dispatch.Revision, now time.Time, seed [32]byte) ([][]byte, error) {
			if offers := c.Offers(rev); !offers.Calls(q.export) {
				return nil, errNoReviews
			}
			return begin(rev, now, seed)
		}
		returned, err := c.Call(ctx, v)
		switch {
		case errors.Is(err, sandbox.ErrClosed) && s.waitForOther(ctx, q, c) != nil:
			continue
		case ctx.Err() != nil && err != nil:
			return returned, errors.New("it was not called, or did not answer, in the time that the API server waits: it is busy, or the host is")
		}
		return returned, err
	}
}

// controllerOf returns the controller of a request, nil if there is none. It waits a moment for one
// that is yet to start, or is being replaced.
func (s *Server) controllerOf(ctx context.Context, q *request) Controller {
	c := s.Controller(q.export, q.plugin, q.controller)
	if c == nil && q.known.isAwaited(q.controller) {
		return s.waitForOther(ctx, q, nil)
	}
	return c
}

// waitForOther waits until another controller runs than one whose guest was closed, nil for none:
// what runs is replaced as a whole if the two revisions have different kinds. It returns nil if the
// plugin is stopped.
func (s *Server) waitForOther(ctx context.Context, q *request, closed Controller) Controller {
	bounded, cancel := context.WithTimeout(ctx, maxSwap)
	defer cancel()
	for {
		if c := s.Controller(q.export, q.plugin, q.controller); c != nil && c != closed {
			return c
		}
		select {
		case <-bounded.Done():
			return nil
		case <-time.After(swapPoll):
		}
	}
}

const (
	maxSwap  = 2 * time.Second
	swapPoll = 10 * time.Millisecond
)

// failed returns the answer of a review that has failed, as the failure policy says.
func (s *Server) failed(q *request, err error) (allowed bool, message string) {
	message = sanitize.Truncate(q.name()+": "+q.export+" failed: "+s.explained(q, err), abi.MaxErrorMessage)
	if _, logged := errors.AsType[*sandbox.Fault](err); !logged && s.failures.allow(q.plugin) {
		s.Logger.Warn("review failed", "plugin", q.plugin, "controller", q.controller, "error", message)
	}
	return q.known.Webhooks != nil && q.known.Webhooks.FailurePolicy == IgnoreFailure, message
}

// explained returns the text of an error, and what to do about it.
func (s *Server) explained(q *request, err error) string {
	switch {
	case errors.Is(err, errNotRunning):
		return "it does not run: the plugin is " + q.known.State + ", see /plugins of the host"
	case errors.Is(err, errNoReviews):
		return err.Error() + ": remove the webhook, or build the plugin with the export " + q.export
	}
	text := sanitize.Line(strings.TrimPrefix(err.Error(), "plugin "+quoted(q.plugin)+": "))
	if _, logged := errors.AsType[*sandbox.Fault](err); logged {
		text += "; the log of the host has more"
	}
	return text
}

// failures bounds how many failed reviews of each plugin are logged.
type failures struct {
	mu       sync.Mutex
	byPlugin map[string]*rate.Limiter
}

const (
	failuresPerSecond = 1
	failuresAtOnce    = 10
)

// allow reports whether one more is logged, of a plugin that is in the directory.
func (f *failures) allow(plugin string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byPlugin == nil {
		f.byPlugin = map[string]*rate.Limiter{}
	}
	if f.byPlugin[plugin] == nil {
		f.byPlugin[plugin] = rate.NewLimiter(failuresPerSecond, failuresAtOnce)
	}
	return f.byPlugin[plugin].Allow()
}

// statusOf returns the status of HTTP for a reason of a plugin.
func statusOf(reason metav1.StatusReason) int32 {
	if status, known := statuses[reason]; known {
		return int32(status)
	}
	return http.StatusForbidden
}

var statuses = map[metav1.StatusReason]int{
	metav1.StatusReasonForbidden:             http.StatusForbidden,
	metav1.StatusReasonInvalid:               http.StatusUnprocessableEntity,
	metav1.StatusReasonBadRequest:            http.StatusBadRequest,
	metav1.StatusReasonNotFound:              http.StatusNotFound,
	metav1.StatusReasonConflict:              http.StatusConflict,
	metav1.StatusReasonAlreadyExists:         http.StatusConflict,
	metav1.StatusReasonTooManyRequests:       http.StatusTooManyRequests,
	metav1.StatusReasonMethodNotAllowed:      http.StatusMethodNotAllowed,
	metav1.StatusReasonRequestEntityTooLarge: http.StatusRequestEntityTooLarge,
	metav1.StatusReasonServiceUnavailable:    http.StatusServiceUnavailable,
	metav1.StatusReasonInternalError:         http.StatusInternalServerError,
}

// codeError returns an error for a result with a code other than [abi.CodeOK], nil for that code.
func codeError(code abi.Code, e *abi.Failure) error {
	switch {
	case code == abi.CodeOK:
		return nil
	case e == nil || e.Message == "":
		return fmt.Errorf("it returned %d without a message", code)
	case e.Reason != "":
		return fmt.Errorf("%s: %s", e.Reason, e.Message)
	}
	return errors.New(e.Message)
}

// encode returns a response as JSON, without escapes for HTML.
func encode(body any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(body)
	return text.Bytes(), err
}
