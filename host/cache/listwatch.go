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

// listWatch asks the API server for the objects of one kind. It looks the
// resource up for each request, so that it follows a CRD which goes and comes
// back, be it under another plural or scope.
type listWatch struct {
	kind      abi.Kind
	namespace string // "" for all
	client    rest.Interface
	discovery *discovery
	clock     clock.WithTicker
	stall     time.Duration // without an event or bookmark
	retry     time.Duration // between two looks for a kind that is gone
	health    *health
	gone      func() // called when the kind is not served any more
	found     func(object.Resource)
	streams   sync.WaitGroup
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
	bounded, cancel := context.WithTimeout(ctx, l.stall)
	defer cancel()
	list, err := req.Do(bounded).Get()
	return list, l.outcome(ctx, err)
}

// WatchWithContext implements cache.WatcherWithContext. A server that accepts
// the request and then says nothing counts as stalled, too.
func (l *listWatch) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	req, err := l.request(ctx, options)
	if err != nil {
		return nil, err
	}
	watching, cancel := context.WithCancelCause(ctx)
	idle := l.clock.NewTimer(l.stall)
	source, err := l.open(watching, cancel, req, idle)
	if err != nil {
		idle.Stop()
		cancel(nil)
		if apierrors.IsInvalid(err) && options.SendInitialEvents != nil {
			return nil, err // no watch-list on this server: the reflector lists instead
		}
		return nil, l.outcome(ctx, err)
	}
	l.health.ok()
	s := &stream{
		source: source, idle: idle, stall: l.stall, cancel: cancel, health: l.health,
		result: make(chan watch.Event), done: make(chan struct{}),
	}
	l.streams.Go(func() { s.run(ctx) })
	return s, nil
}

// errStalled is why a watch without any sign of life is ended.
var errStalled = errors.New("the watch has stalled")

// open starts a watch and gives up when the response does not begin in time.
func (l *listWatch) open(ctx context.Context, cancel context.CancelCauseFunc, req *rest.Request, idle clock.Timer) (watch.Interface, error) {
	opened := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-idle.C():
			cancel(errStalled)
		case <-opened:
		}
	}()
	w, err := req.Watch(ctx)
	close(opened)
	<-watched
	if errors.Is(context.Cause(ctx), errStalled) {
		if w != nil {
			w.Stop()
		}
		return nil, fmt.Errorf("watch %s: no answer for %s: %w", l.kind, l.stall, errStalled)
	}
	return w, err
}

// request builds a request for the kind's collection. While the kind is not
// served it waits until it is.
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
			l.found(s.Resource)
			return s.Resource, nil
		}
		if unknown := (*UnknownKindError)(nil); !errors.As(err, &unknown) {
			return s.Resource, err
		}
		l.gone()
		l.health.fail(err)
		select {
		case <-ctx.Done():
			return object.Resource{}, context.Cause(ctx)
		case <-l.clock.After(l.retry):
		}
	}
}

// outcome notes how a request ended; that a watch began notes WatchWithContext.
// After a 404 the next request looks the kind up again: only discovery says
// that it is gone. The end of ctx is nobody's failure.
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

// stream passes the events of a watch on and ends it when nothing has come
// for too long.
type stream struct {
	source watch.Interface
	idle   clock.Timer
	stall  time.Duration
	health *health
	cancel context.CancelCauseFunc
	result chan watch.Event
	done   chan struct{}
	stop   sync.Once
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
			if !ok || !s.pass(ctx, e) {
				return
			}
			s.idle.Reset(s.stall)
		case <-s.idle.C():
			s.pass(ctx, relist(s.stall))
			return
		}
	}
}

func (s *stream) pass(ctx context.Context, e watch.Event) bool {
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

// relist is the event that makes the reflector list again: what the API
// server says when it has forgotten the version of a watch.
func relist(after time.Duration) watch.Event {
	status := apierrors.NewResourceExpired(fmt.Sprintf("no event or bookmark for %s", after)).Status()
	return watch.Event{Type: watch.Error, Object: &status}
}
