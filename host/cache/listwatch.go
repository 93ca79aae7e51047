package cache

import (
	"context"
	"errors"
	"fmt"
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

// listWatch lists and watches the kind of an informer. It looks up the resource
// for each request, so that it works with a CRD that is deleted and created
// again, even if its plural or scope is another one then.
type listWatch struct{ *informer }

var _ cache.ListerWatcherWithContext = listWatch{}

// List implements cache.Lister. The reflector calls ListWithContext.
func (l listWatch) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch implements cache.Watcher. The reflector calls WatchWithContext.
func (l listWatch) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// ListWithContext implements cache.ListerWithContext.
func (l listWatch) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	req, err := l.request(ctx, l.consistent(options))
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, l.cache.config.StallAfter)
	defer cancel()
	list, err := req.Do(bounded).Get()
	l.uninterrupted.Store(err == nil)
	return list, l.outcome(ctx, err)
}

// errStalled is the reason for ending a watch to which the server does not
// respond, or in which there are neither events nor bookmarks.
var errStalled = errors.New("no response, event or bookmark")

// WatchWithContext implements cache.WatcherWithContext.
func (l listWatch) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	uninterrupted := l.uninterrupted.Swap(false)
	if options.SendInitialEvents != nil {
		options = l.consistent(options)
	}
	req, err := l.request(ctx, options)
	if err != nil {
		return nil, err
	}
	stallAfter := l.cache.config.StallAfter
	watching, cancel := context.WithCancelCause(ctx)
	idle := l.cache.config.Clock.AfterFunc(stallAfter, func() { cancel(fmt.Errorf("%w for %s", errStalled, stallAfter)) })
	source, err := req.Watch(watching)
	if err != nil {
		idle.Stop()
		if stalled(watching) {
			err = context.Cause(watching)
		}
		cancel(nil)
		if apierrors.IsInvalid(err) && options.SendInitialEvents != nil {
			return nil, err // the server has no watch-list: the reflector lists instead
		}
		return nil, l.outcome(ctx, err)
	}
	if known := options.ResourceVersion; known != "" && known != "0" && !uninterrupted {
		if err := l.checkVersion(ctx); err != nil {
			idle.Stop()
			cancel(nil)
			source.Stop()
			return nil, l.outcome(ctx, err)
		}
	}
	l.health.watching()
	events := make(chan watch.Event)
	s := &stream{ProxyWatcher: watch.NewProxyWatcher(events), events: events, source: source, idle: idle, informer: l.informer}
	l.running.Go(func() {
		s.run(watching, stallAfter)
		cancel(nil)
	})
	return s, nil
}

// stalled reports whether the idle timer of a watch has ended its request.
func stalled(watching context.Context) bool { return errors.Is(context.Cause(watching), errStalled) }

// request returns a request for the collection of the kind. It blocks while the
// kind is not served.
func (l listWatch) request(ctx context.Context, options metav1.ListOptions) (*rest.Request, error) {
	resource, err := l.lookUp(ctx)
	if err != nil {
		return nil, l.outcome(ctx, err)
	}
	options.LabelSelector, options.FieldSelector = l.selected.labels, l.selected.fields
	return l.client.Get().
		AbsPath(resource.Collection(l.selected.namespace)...).
		SetHeader("Accept", l.accept(options.Watch)).
		SpecificallyVersionedParams(&options, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"}), nil
}

// lookUp blocks while the kind is not served, or not in namespaces though one of them is
// followed. There are no objects meanwhile.
func (l listWatch) lookUp(ctx context.Context) (object.Resource, error) {
	for {
		s, err := l.cache.discovery.find(ctx, l.Kind())
		_, unknown := errors.AsType[*object.UnknownKindError](err)
		switch {
		case err == nil && (s.Namespaced || !l.needsNamespace()):
			l.resource.Store(&s.Resource)
			return s.Resource, nil
		case err == nil:
			err = &otherScopeError{l.Kind()}
			l.cache.discovery.invalidate(l.Kind().APIVersion)
		case !unknown:
			return s.Resource, err
		}
		l.store.clear()
		l.health.fail(err)
		select {
		case <-ctx.Done():
			return s.Resource, context.Cause(ctx)
		case <-l.cache.config.Clock.After(l.cache.config.RetryAfter):
		}
	}
}

// needsNamespace reports whether the informer follows one namespace among others. The
// objects of a cluster-scoped kind, of which every such informer would have all, are
// followed by one informer ([Cache.Acquire]).
func (i *informer) needsNamespace() bool {
	return i.selected.namespace != "" && i.cache.config.Namespace == ""
}

// otherScopeError is the failure of an informer of one namespace while the kind is
// cluster-scoped, because its CRD was made again.
type otherScopeError struct{ kind abi.Kind }

func (e *otherScopeError) Error() string {
	return fmt.Sprintf("%s is cluster-scoped now, and was followed in namespaces: install the CRD with the scope Namespaced again, or restart the host to follow it as it is", e.kind)
}

// outcome records the result of a request, and returns err. A request that ended with ctx has not failed.
func (l listWatch) outcome(ctx context.Context, err error) error {
	switch {
	case err == nil:
		l.health.listed()
	case ctx.Err() != nil, needsList(err):
	default:
		l.forgetUnserved(err)
		l.health.fail(err)
	}
	return err
}

// forgetUnserved makes the next request look up the kind again after a response 404,
// because only discovery shows whether it is still served.
func (l listWatch) forgetUnserved(err error) {
	if apierrors.IsNotFound(err) {
		l.cache.discovery.invalidate(l.Kind().APIVersion)
	}
}

// needsList reports whether the API server is not able to continue from a
// resourceVersion: it has it no longer, or not yet.
func needsList(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// stream forwards the events of a watch to the reflector.
type stream struct {
	*watch.ProxyWatcher                    // the watch as the reflector has it
	events              chan<- watch.Event // of the ProxyWatcher
	source              watch.Interface
	idle                clock.Timer // ends the request of source with errStalled
	informer            *informer
}

// run forwards events until the watch ends or is stopped.
func (s *stream) run(watching context.Context, stallAfter time.Duration) {
	defer close(s.events)
	defer s.source.Stop()
	defer s.idle.Stop()
	for {
		select {
		case <-s.StopChan():
			return
		case e, ok := <-s.source.ResultChan():
			if stalled(watching) {
				s.endStalled(watching)
				return
			}
			if !ok || !s.forward(watching, e) {
				return
			}
			s.idle.Reset(stallAfter)
		}
	}
}

// endStalled ends a watch that was silent. If the server sends bookmarks, something
// is wrong, and the reflector is made to list again by the event that the API server
// sends when the resourceVersion of a watch has expired. A server without bookmarks
// is silent whenever nothing changes: there the reflector continues the watch from
// the last version, which loses nothing.
func (s *stream) endStalled(watching context.Context) {
	if !s.informer.bookmarks.Load() {
		s.informer.uninterrupted.Store(true)
		return
	}
	err := context.Cause(watching)
	s.informer.health.log.Warn("the watch has shown nothing, listing the kind again", "error", err)
	status := apierrors.NewResourceExpired(err.Error()).Status()
	s.forward(watching, watch.Event{Type: watch.Error, Object: &status})
}

// observe records what an event shows about the server.
func (s *stream) observe(watching context.Context, e watch.Event) {
	switch e.Type {
	case watch.Error:
		if err := apierrors.FromObject(e.Object); watching.Err() == nil && !needsList(err) {
			s.informer.health.fail(err)
		}
	case watch.Bookmark:
		// The one that ends the initial events says nothing about later ones.
		if o, ok := e.Object.(*object.Object); ok && o.Annotations[metav1.InitialEventsAnnotationKey] == "" {
			s.informer.bookmarks.Store(true)
		}
	default:
	}
}

func (s *stream) forward(watching context.Context, e watch.Event) bool {
	s.observe(watching, e)
	select {
	case s.events <- e:
		return true
	case <-s.StopChan():
		return false
	}
}
