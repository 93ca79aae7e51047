package cloudevents

import (
	"context"
	"sync"
	"time"
)

// Announce publishes n events of a controller about what is there, to every sink at its own pace: it
// waits until half of a buffer is free. It blocks until all are in the buffers, or ctx is done. Unless
// again is set, the sinks to which the same controller has announced everything are left out.
//
// event is called for each event and sink. It must call put with the event at that time, or not at all if
// there is nothing to publish any more, and must not call back otherwise.
func (p *Publisher) Announce(ctx context.Context, controller string, again bool, n int, event func(i int, put func(Event))) {
	var announcing sync.WaitGroup
	defer announcing.Wait()
	for _, s := range p.current() {
		if !s.begins(controller, again) {
			continue
		}
		announcing.Go(func() {
			for i := range n {
				if !p.announce(ctx, s, i, event) {
					return
				}
			}
			s.announced(controller)
		})
	}
}

// announce puts one event into the buffer of a sink. It returns false if ctx is done, or the sink has
// ended.
func (p *Publisher) announce(ctx context.Context, s *sink, i int, event func(i int, put func(Event))) bool {
	for s.awaitRoom(ctx) {
		full := false
		event(i, func(e Event) {
			ready, err := encode(e, p.typePrefix(), time.Now())
			if err != nil {
				p.config.Logger.Error("a CloudEvent cannot be published", "error", err)
				return
			}
			full = !s.add(ready)
		})
		if !full {
			return true
		}
	}
	return false
}

func (p *Publisher) typePrefix() string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.prefix
}

// awaitRoom waits until half of the buffer is free. It returns false if ctx is done, or the sink has
// ended.
func (s *sink) awaitRoom(ctx context.Context) bool {
	for ctx.Err() == nil {
		freed, open := s.room()
		if freed == nil {
			return open
		}
		select {
		case <-freed:
		case <-ctx.Done():
		}
	}
	return false
}

// begins reports whether the objects of a controller are to be announced to the sink.
func (s *sink) begins(controller string, again bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if again {
		delete(s.told, controller)
	}
	_, told := s.told[controller]
	return !told
}

// announced records that the objects of a controller were announced.
func (s *sink) announced(controller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[controller] = struct{}{}
}
