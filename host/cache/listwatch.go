package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// listWatch lists and watches one kind. It looks up the resource for each
// request, so that it works with a CRD that is deleted and created again, even
// if its plural or scope is another one then.
type listWatch struct {
	kind       abi.Kind
	namespace  string // "" for all
	client     rest.Interface
	discovery  *discovery
	clock      clock.WithTicker
	stallAfter time.Duration // see Config
	retryAfter time.Duration // see Config
	health     *health
	onGone     func()                // called when the kind is not served any more
	onFound    func(object.Resource) // called with the result of each lookup
	streams    sync.WaitGroup        // watches
}

var _ cache.ListerWatcherWithContext = (*listWatch)(nil)

// List implements cache.Lister. The reflector calls ListWithContext.
func (l *listWatch) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch implements cache.Watcher. The reflector calls WatchWithContext.
func (l *listWatch) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// ListWithContext implements cache.ListerWithContext.
func (l *listWatch) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	req, err := l.request(ctx, options)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, l.stallAfter)
	defer cancel()
	list, err := req.Do(bounded).Get()
	return list, l.outcome(ctx, err)
}

// WatchWithContext implements cache.WatcherWithContext. A watch to which the
// server does not respond counts as stalled, too.
func (l *listWatch) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	req, err := l.request(ctx, options)
	if err != nil {
		return nil, err
	}
	watching, cancel := context.WithCancelCause(ctx)
	idle := l.clock.NewTimer(l.stallAfter)
	source, err := l.openWatch(watching, cancel, req, idle)
	if err != nil {
		idle.Stop()
		cancel(nil)
		if apierrors.IsInvalid(err) && options.SendInitialEvents != nil {
			return nil, err // the server has no watch-list: the reflector lists instead
		}
		return nil, l.outcome(ctx, err)
	}
	l.health.watching()
	s := &stream{
		source: source, idle: idle, stallAfter: l.stallAfter, cancel: cancel, health: l.health,
		result: make(chan watch.Event), done: make(chan struct{}),
	}
	l.streams.Go(func() { s.run(ctx) })
	return s, nil
}

// errStalled is the reason for ending a watch without events and bookmarks.
var errStalled = errors.New("the watch has stalled")

// openWatch starts a watch. It fails if the response does not begin in time.
func (l *listWatch) openWatch(ctx context.Context, cancel context.CancelCauseFunc, req *rest.Request, idle clock.Timer) (watch.Interface, error) {
	opened, timerDone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(timerDone)
		select {
		case <-idle.C():
			cancel(errStalled)
		case <-opened:
		}
	}()
	w, err := req.Watch(ctx)
	close(opened)
	<-timerDone
	if errors.Is(context.Cause(ctx), errStalled) {
		if w != nil {
			w.Stop()
		}
		return nil, fmt.Errorf("watch %s: no response for %s: %w", l.kind, l.stallAfter, errStalled)
	}
	return w, err
}

// request returns a request for the collection of the kind. It blocks while the
// kind is not served.
func (l *listWatch) request(ctx context.Context, options metav1.ListOptions) (*rest.Request, error) {
	resource, err := l.resource(ctx)
	if err != nil {
		return nil, l.outcome(ctx, err)
	}
	return l.client.Get().
		AbsPath(resource.Collection(l.namespace)...).
		SpecificallyVersionedParams(&options, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"}), nil
}

func (l *listWatch) resource(ctx context.Context) (object.Resource, error) {
	for {
		s, err := l.discovery.find(ctx, l.kind)
		if err == nil {
			l.onFound(s.Resource)
			return s.Resource, nil
		}
		if unknown := (*UnknownKindError)(nil); !errors.As(err, &unknown) {
			return s.Resource, err
		}
		l.onGone()
		l.health.fail(err)
		select {
		case <-ctx.Done():
			return object.Resource{}, context.Cause(ctx)
		case <-l.clock.After(l.retryAfter):
		}
	}
}

// outcome records the result of a request, and returns err. After a response
// 404 the next request looks up the kind again, because only discovery shows
// whether it is still served. A request that ended with ctx has not failed.
func (l *listWatch) outcome(ctx context.Context, err error) error {
	switch {
	case err == nil:
		l.health.listed()
	case ctx.Err() != nil:
	case apierrors.IsNotFound(err):
		l.discovery.invalidate(l.kind.APIVersion)
		l.health.fail(err)
	case !expired(err):
		l.health.fail(err)
	}
	return err
}

func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// stream forwards the events of a watch, and ends it when none has arrived for
// too long.
type stream struct {
	source     watch.Interface
	idle       clock.Timer
	stallAfter time.Duration
	health     *health
	cancel     context.CancelCauseFunc
	result     chan watch.Event
	done       chan struct{}
	stop       sync.Once
}

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event { return s.result }

// Stop implements watch.Interface.
func (s *stream) Stop() {
	s.stop.Do(func() {
		close(s.done)
		s.source.Stop()
		s.cancel(nil)
	})
}

func (s *stream) run(ctx context.Context) {
	defer close(s.result)
	defer s.Stop()
	defer s.idle.Stop()
	for {
		select {
		case <-s.done:
			return
		case e, ok := <-s.source.ResultChan():
			if !ok || !s.forward(ctx, e) {
				return
			}
			s.idle.Reset(s.stallAfter)
		case <-s.idle.C():
			s.forward(ctx, expiredEvent(s.stallAfter))
			return
		}
	}
}

func (s *stream) forward(ctx context.Context, e watch.Event) bool {
	if e.Type == watch.Error && ctx.Err() == nil {
		if err := apierrors.FromObject(e.Object); !expired(err) {
			s.health.fail(err)
		}
	}
	select {
	case s.result <- e:
		return true
	case <-s.done:
		return false
	}
}

// expiredEvent returns the event that makes the reflector list again: the one
// that the API server sends when the resourceVersion of a watch has expired.
func expiredEvent(after time.Duration) watch.Event {
	status := apierrors.NewResourceExpired(fmt.Sprintf("no event or bookmark for %s", after)).Status()
	return watch.Event{Type: watch.Error, Object: &status}
}
