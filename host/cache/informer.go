package cache

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache/edges"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/object"
)

// informer follows what is selected of one kind, for all its users: by a watch or, if the
// API has none, by lists at an interval.
type informer struct {
	cache    *Cache
	scope    scope.Scope
	selected selected                        // by the scope
	client   rest.Interface                  // decodes responses as objects of the kind
	resource atomic.Pointer[object.Resource] // as discovery found it last
	store    *store
	edges    *edges.Kind // from the owners that have read the kind
	health   *health
	poller   *poller         // nil if the kind is watched
	ctx      context.Context //nolint:containedctx // ends with the informer
	cancel   context.CancelFunc
	running  sync.WaitGroup // the reflector and its watches, or the poller, and the delivery of events

	// What the requests and watches of listWatch have shown.
	bookmarks     atomic.Bool // the server sends bookmarks
	uninterrupted atomic.Bool // the next watch continues a list or a silent watch: the server is the same
	wentBack      atomic.Bool // the server has an earlier state than the store

	// Guarded by Cache.mu.
	users int
	idle  clock.Timer // stops the informer; nil while there are users
}

// start starts the goroutines that follow the kind and that deliver events.
func (i *informer) start() {
	if i.poller != nil {
		i.running.Go(func() { listWatch{i}.poll(i.ctx) })
	} else {
		i.startReflector()
	}
	i.running.Go(func() { i.store.feed.run(i.ctx) })
	i.running.Go(func() { i.store.packUnread(i.ctx) })
}

func (i *informer) startReflector() {
	reflector := cache.NewReflectorWithOptions(listWatch{i}, &object.Object{}, i.store, cache.ReflectorOptions{
		Name:            "thole",
		TypeDescription: i.scope.String(),
		Clock:           interruptible{informer: i},
		Backoff:         i.cache.config.backoff,
	})
	// The reflector logs every failed request. health logs the changes.
	quiet := klog.NewContext(i.ctx, logr.Discard())
	i.running.Go(func() { reflector.RunWithContext(quiet) })
}

// changed wakes the owners that depend on an object. Objects of an initial list are
// left out, because the owners that could not read them wait for the sync.
func (i *informer) changed(e Event) {
	if !e.Initial {
		i.edges.Changed(edges.Change{Old: e.Old, Updated: e.New})
	}
}

// listed reports that the plugin of an owner has no room for an index that a list needs.
func (i *informer) listed(o Owner, limited bool) {
	if limited {
		i.cache.hooks.IndexLimited(o, i.Kind())
	}
}

// stop ends the goroutines and frees the objects.
func (i *informer) stop() {
	i.cancel()
	i.running.Wait()
	i.store.release()
}

// Kind returns the kind that the informer follows.
func (i *informer) Kind() abi.Kind { return i.resource.Load().Kind }

// HasSynced reports whether the informer has read all objects of the kind once.
func (i *informer) HasSynced() bool { return i.store.hasSynced() }

// WaitForSync blocks until HasSynced. It fails when ctx is done, and as soon as
// a request of the informer fails, with the error of the API server. The
// informer retries nevertheless, so that a later call may succeed.
func (i *informer) WaitForSync(ctx context.Context) error {
	select {
	case <-i.health.failing():
	case <-i.store.synced:
	case <-i.ctx.Done():
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", i.Kind(), context.Cause(ctx))
	}
	// An informer that has synced may fail now: its objects are outdated.
	if err := i.health.lastError(); err != nil {
		return fmt.Errorf("%s %s: %w", i.health.verb(), i.Kind(), err)
	}
	if !i.HasSynced() {
		return i.WaitForSync(ctx) // the failure has ended meanwhile
	}
	return nil
}

// Err returns why the informer cannot follow its kind at the moment, or nil.
func (i *informer) Err() error { return i.health.lastError() }

// Namespaced reports whether the objects of the kind live in namespaces.
func (i *informer) Namespaced() bool { return i.resource.Load().Namespaced }

func (i *informer) subscribe(h *handler) (remove func()) {
	i.store.subscribe(h)
	return func() { i.store.feed.remove(h) }
}

// Live reads an object from the API server. The error is an
// [apierrors.APIStatus], NotFound if there is no such object.
func (i *informer) Live(ctx context.Context, key object.Key) (*object.Object, error) {
	if err := key.Validate(); err != nil {
		return nil, fmt.Errorf("get %s %s: %w", i.Kind(), key, err)
	}
	got, err := i.client.Get().AbsPath(i.resource.Load().Path(key)...).SetHeader("Accept", i.accept(true)).Do(ctx).Get()
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", i.Kind(), key, err)
	}
	o, ok := got.(*object.Object)
	if !ok {
		return nil, fmt.Errorf("get %s %s: the response of the API server is a %T", i.Kind(), key, got)
	}
	return o, nil
}

// accept returns the media types of a response with one object at a time, or with a list.
func (i *informer) accept(one bool) string {
	switch {
	case !i.selected.metadataOnly:
		return mediaType
	case one:
		return mediaType + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," + mediaType
	}
	return mediaType + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," + mediaType
}

// interruptible is a clock for the reflector, which ignores its context while
// it waits for the end of a backoff: After fires early when the informer stops.
type interruptible struct {
	clock.RealClock
	informer *informer
}

// Since implements clock.Clock. The reflector lists again after a watch that has
// ended early, without an event.
func (c interruptible) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Now implements clock.Clock.
func (c interruptible) Now() time.Time { return c.informer.cache.config.Clock.Now() }

// After implements clock.Clock.
func (c interruptible) After(d time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	ctx, cancel := context.WithTimeout(c.informer.ctx, d)
	context.AfterFunc(ctx, func() {
		cancel()
		fired <- time.Now()
	})
	return fired
}
