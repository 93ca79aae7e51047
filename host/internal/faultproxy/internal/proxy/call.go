package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/active"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/journal"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/request"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/rule"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/watch"
)

// errNoReply ends a request without a reply.
var errNoReply = errors.New("a fault rule lets the request have no reply")

// call passes one request on, with its faults.
type call struct {
	*Proxy
	attributes request.Attributes
	entry      *journal.Entry
	exchange   *active.Exchange
}

// RoundTrip implements [http.RoundTripper].
func (c *call) RoundTrip(r *http.Request) (*http.Response, error) {
	fault, err := c.hold(r.Context())
	if err != nil {
		return nil, err
	}
	if reply, err := c.instead(fault, r); reply != nil || err != nil {
		return reply, err
	}
	reply, err := c.next(r).RoundTrip(r)
	if err != nil {
		return nil, err
	}
	c.entry.Performed(reply.StatusCode)
	if reply, err = c.performed(fault, reply); err != nil {
		return nil, err
	}
	if c.attributes.Verb == "watch" && reply.StatusCode == http.StatusOK && c.attributes.Resource != "" {
		reply.Body = c.newStream(r, reply)
	}
	return reply, nil
}

// hold blocks while the request is delayed or hangs, and returns its fault. Events
// of a watch are delayed, not its request.
func (c *call) hold(ctx context.Context) (*active.Fault, error) {
	for arrived := time.Now(); ; {
		state := c.exchange.State()
		hangs := state.Fault != nil && state.Fault.Rule.Fault == rule.Hang
		wait := state.Delay - time.Since(arrived)
		if c.attributes.Verb == "watch" {
			wait = 0
		}
		if wait <= 0 && !hangs {
			return state.Fault, nil
		}
		if err := waitFor(ctx, state.Changed, wait); err != nil {
			return nil, err
		}
	}
}

// waitFor blocks until changed is closed or the time has passed, if it is positive.
func waitFor(ctx context.Context, changed <-chan struct{}, wait time.Duration) error {
	var timeout <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-changed:
	case <-timeout:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// instead returns the reply to a request that is not passed on, or changes the
// request. Without a reply and an error the request is passed on.
func (c *call) instead(fault *active.Fault, r *http.Request) (*http.Response, error) {
	if fault == nil {
		return nil, nil
	}
	switch fault.Rule.Fault {
	case rule.Cut:
		cutConnection(r.Context())
		return nil, errNoReply
	case rule.Reply:
		return statusReply(r, c.attributes, fault.Status), nil
	case rule.Gone:
		return newReply(r, http.StatusOK, "application/json", watch.Gone()), nil
	case rule.Stale:
		if c.attributes.WatchList {
			return statusReply(r, c.attributes, noWatchList), nil
		}
		asOf(r, fault.Version)
	case rule.Kill, rule.Stop:
		if err := c.Process.Signal(syscall.Signal(0)); err != nil { // perform nothing without a process
			return statusReply(r, c.attributes, internalError(err)), nil
		}
	default:
	}
	return nil, nil
}

// asOf makes a list one of an old state. The next page of a list that has begun is
// of the state of its first page.
func asOf(r *http.Request, version string) {
	query := r.URL.Query()
	if query.Get("continue") != "" {
		return
	}
	query.Set("resourceVersion", version)
	query.Set("resourceVersionMatch", "Exact")
	r.URL.RawQuery = query.Encode()
}

// performed returns what the client gets of the server's reply. Without any it
// closes the reply.
func (c *call) performed(fault *active.Fault, reply *http.Response) (*http.Response, error) {
	if fault == nil {
		return reply, nil
	}
	var err error
	switch fault.Rule.Fault {
	case rule.Lost:
		err = errNoReply
	case rule.Half:
		if c.attributes.Verb != "watch" {
			err = halve(reply)
		}
	case rule.Kill:
		if err = c.Process.Signal(syscall.SIGKILL); err == nil {
			err = errNoReply
		}
	case rule.Stop:
		err = c.Process.Signal(syscall.SIGSTOP)
	default:
	}
	if err != nil {
		_ = reply.Body.Close()
		return nil, err
	}
	return reply, nil
}

// halve makes the body of a reply end half-way by an error. Its length in the header
// stays.
func halve(reply *http.Response) error {
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	half := io.MultiReader(bytes.NewReader(body[:len(body)/2]), failing{})
	reply.Body = struct {
		io.Reader
		io.Closer
	}{half, reply.Body}
	return nil
}

// failing is an [io.Reader].
type failing struct{}

// Read implements [io.Reader].
func (failing) Read([]byte) (int, error) { return 0, errNoReply }

// newStream returns the body of a watch. If the watch is cut, its connection is.
func (c *call) newStream(r *http.Request, reply *http.Response) io.ReadCloser {
	version := r.URL.Query().Get("resourceVersion")
	return &cutting{watch.NewStream(r.Context(), reply, version, c.exchange.State), r.Context()}
}

type cutting struct {
	*watch.Stream
	ctx context.Context //nolint:containedctx // of the request, for its connection
}

// Read implements [io.Reader].
func (s *cutting) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	if errors.Is(err, watch.ErrCut) {
		cutConnection(s.ctx)
	}
	return n, err
}
