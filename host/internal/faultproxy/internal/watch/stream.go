// Package watch injects faults into the events of a watch.
package watch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/active"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/rule"
)

// Errors by which a fault ends the body of a watch.
var (
	ErrCut  = errors.New("the watch is cut")
	errHalf = errors.New("half of an event was sent")
)

// Stream is the body of a watch with faults. It reads events of the server as they
// arrive, and returns them when the rules let it. They keep their order, except
// that bookmarks overtake events which are held back.
type Stream struct {
	ctx   context.Context //nolint:containedctx // that of the request, which [io.Reader] cannot pass
	body  io.ReadCloser
	state func() active.State
	json  bool

	arrived chan struct{} // has an element after a frame has arrived
	mu      sync.Mutex
	queue   []frame // that have arrived; the last one may be the end

	// Of Read alone.
	rest    []byte // of a frame that Read has not returned yet
	err     error  // after rest
	version string // resourceVersion of the last event or bookmark that was returned
}

// NewStream returns the body of a reply to a watch. version is the resourceVersion
// from which the client watches. Close must be called.
func NewStream(ctx context.Context, reply *http.Response, version string, state func() active.State) *Stream {
	s := &Stream{
		ctx: ctx, body: reply.Body, state: state, json: isJSON(reply.Header),
		arrived: make(chan struct{}, 1),
	}
	if version != "0" { // of no event
		s.version = version
	}
	go s.receive(frames(reply.Body, s.json))
	return s
}

// receive queues frames until the body ends or is closed.
func (s *Stream) receive(next func() frame) {
	for {
		f := next()
		f.arrived = time.Now()
		s.mu.Lock()
		s.queue = append(s.queue, f)
		s.mu.Unlock()
		select {
		case s.arrived <- struct{}{}:
		default:
		}
		if f.err != nil {
			return
		}
	}
}

// Close ends the watch at the server.
func (s *Stream) Close() error { return s.body.Close() }

// Read blocks until there are bytes of a frame. It returns no more than one frame,
// so that each is sent at once.
func (s *Stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		state := s.state()
		if wait, ok := s.step(state); !ok {
			s.wait(state.Changed, wait)
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// wait blocks until another frame can be sent, perhaps. wait is 0 if time makes no
// difference.
func (s *Stream) wait(changed <-chan struct{}, wait time.Duration) {
	var timeout <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-changed:
	case <-s.arrived:
	case <-timeout:
	case <-s.ctx.Done():
		s.err = s.ctx.Err()
	}
}

// step makes the next frame that may be sent the rest, and reports whether there is
// one. If not, wait is how long the next one is delayed, 0 if it is not that.
func (s *Stream) step(state active.State) (wait time.Duration, ok bool) {
	switch fault := s.fault(state); fault {
	case rule.Cut:
		s.err = ErrCut
		return 0, true
	case rule.Gone:
		s.rest, s.err = Gone(), io.EOF
		return 0, true
	case rule.Freeze:
		return 0, false
	default:
		next, wait, ok := s.take(fault, state.Delay)
		if ok {
			s.send(next, fault)
		}
		return wait, ok
	}
}

// fault returns the fault that applies; events of another encoding cannot be read.
func (s *Stream) fault(state active.State) rule.Fault {
	if state.Fault == nil {
		return ""
	}
	fault := state.Fault.Rule.Fault
	if !s.json && fault != rule.Cut && fault != rule.Freeze {
		return ""
	}
	return fault
}

// take removes the next frame that may be sent from the queue, and the bookmarks
// before it that may not be sent at all.
func (s *Stream) take(fault rule.Fault, delay time.Duration) (next frame, wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fault == rule.NoBookmarks {
		s.queue = slices.DeleteFunc(s.queue, func(f frame) bool { return f.bookmark })
	}
	i := 0
	if fault == rule.BookmarksOnly {
		i = slices.IndexFunc(s.queue, s.passesHeldEvents)
	}
	if i < 0 || i >= len(s.queue) {
		return frame{}, 0, false
	}
	next = s.queue[i]
	if wait = delay - time.Since(next.arrived); wait > 0 {
		return frame{}, wait, false
	}
	s.queue = slices.Delete(s.queue, i, i+1)
	return next, 0, true
}

// passesHeldEvents reports whether a frame is sent although events are held back:
// the end of the watch, and bookmarks once there is a version that they can have.
func (s *Stream) passesHeldEvents(f frame) bool { return f.err != nil || f.bookmark && s.version != "" }

// send makes a frame the rest.
func (s *Stream) send(f frame, fault rule.Fault) {
	if f.err == nil && fault == rule.BookmarksOnly {
		f, f.err = f.withVersion(s.version)
	}
	if f.err != nil {
		s.err = f.err
		return
	}
	s.rest = f.bytes
	if f.version != "" {
		s.version = f.version
	}
	if fault == rule.Half {
		s.rest, s.err = s.rest[:len(s.rest)/2], errHalf
	}
}
