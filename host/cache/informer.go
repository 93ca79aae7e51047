package cache

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Informer is one user's hold on the informer of a kind. It works until
// Release; after that it may go on answering or not.
type Informer struct {
	*informer
	cache    *Cache
	released atomic.Bool
}

// Release gives the hold back. A second call does nothing. Handlers stay until
// they are removed or the informer stops.
func (i *Informer) Release() {
	if i.released.CompareAndSwap(false, true) {
		i.cache.release(i.informer)
	}
}

// informer follows one kind for all who acquired it.
type informer struct {
	kind     abi.Kind
	resource atomic.Pointer[object.Resource] // as it was last found
	store    *store
	lw       *listWatch
	client   rest.Interface
	health   *health
	backoff  *wait.Backoff
	ctx      context.Context //nolint:containedctx // ends with the informer
	cancel   context.CancelFunc
	running  sync.WaitGroup

	// Guarded by the mutex of the cache.
	users int
	idle  clock.Timer // set while there are no users
}

// start runs the reflector and the goroutine that hands out its events.
func (i *informer) start() {
	reflector := cache.NewReflectorWithOptions(i.lw, &object.Object{}, i.store, cache.ReflectorOptions{
		Name:            "thole",
		TypeDescription: i.kind.String(),
		Clock:           interruptible{done: i.ctx.Done()},
		Backoff:         i.backoff,
	})
	// The reflector logs each failure; listWatch tells what matters of them.
	quiet := klog.NewContext(i.ctx, logr.Discard())
	i.running.Go(func() { reflector.RunWithContext(quiet) })
	i.running.Go(func() { i.store.feed.run(i.ctx) })
}

// stop ends the goroutines and gives the memory back.
func (i *informer) stop() {
	i.cancel()
	i.running.Wait()
	i.lw.streams.Wait()
	i.store.release()
}

// Kind returns the kind that the informer follows.
func (i *informer) Kind() abi.Kind { return i.kind }

// HasSynced says whether the informer has read the kind once.
func (i *informer) HasSynced() bool { return i.store.hasSynced() }

// WaitForSync waits until HasSynced. It fails when ctx ends, and as soon as the
// API server refuses or is not there: the error names what it said. The
// informer tries again by itself, so come again.
func (i *informer) WaitForSync(ctx context.Context) error {
	select {
	case <-i.health.failing():
	case <-i.store.synced:
	case <-i.ctx.Done():
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", i.Kind(), context.Cause(ctx))
	}
	// One that has synced and fails follows its kind no more.
	if err := i.health.last(); err != nil {
		return fmt.Errorf("follow %s: %w", i.Kind(), err)
	}
	if !i.HasSynced() {
		return i.WaitForSync(ctx) // it has recovered meanwhile
	}
	return nil
}

// Err returns why the informer cannot follow its kind now, nil if it can.
func (i *informer) Err() error { return i.health.last() }

// Get returns an object from the store.
func (i *informer) Get(key object.Key) (*object.Object, bool) {
	o := i.store.get(key)
	return o, o != nil
}

// List returns the objects of a namespace, of all namespaces if it is "", that
// match the selector, all if it is nil, ordered by namespace and name. For a
// cluster-scoped kind the namespace is ignored.
func (i *informer) List(namespace string, sel labels.Selector) []*object.Object {
	return i.store.list(i.scope(namespace), sel)
}

// scope is the namespace that an object of the kind can have.
func (i *informer) scope(namespace string) string {
	if i.resource.Load().Namespaced {
		return namespace
	}
	return ""
}

// AddHandler calls h with an event for each object that is there, marked
// Initial, and then with each change, one call after the other. h must not
// wait for anything; a slow handler delays the informer's other handlers. A
// call that has begun may still run when remove returns.
func (i *informer) AddHandler(h func(Event)) (remove func()) {
	return i.subscribe(&handler{event: h})
}

func (i *informer) subscribe(h *handler) (remove func()) {
	i.store.subscribe(h)
	return func() { i.store.feed.remove(h) }
}

// ResourceVersion returns the version up to which the store has read the
// kind, "" before it has synced.
func (i *informer) ResourceVersion() string {
	i.store.mu.RLock()
	defer i.store.mu.RUnlock()
	return i.store.version
}

// Reached says whether the store holds the state of a resourceVersion or a
// later one; true for "".
func (i *informer) Reached(resourceVersion string) bool {
	ok, _ := i.store.reached(resourceVersion)
	return ok
}

// WaitReached waits until Reached. It fails when ctx ends, with ErrStopped, or
// at once with ErrIncomparable. In each case [informer.Live] tells the truth.
func (i *informer) WaitReached(ctx context.Context, resourceVersion string) error {
	w, err := i.store.await(resourceVersion)
	if err != nil || w == nil {
		return err
	}
	defer i.store.abandon(w)
	select {
	case <-w.reached:
		_, err := i.store.reached(resourceVersion)
		return err
	case <-i.ctx.Done():
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("wait for %s at resourceVersion %s: %w", i.Kind(), resourceVersion, context.Cause(ctx))
	}
}

// Live asks the API server for an object. The error is the server's, an
// [apierrors.APIStatus]: NotFound when it is not there.
func (i *informer) Live(ctx context.Context, key object.Key) (*object.Object, error) {
	for _, segment := range []string{key.Namespace, key.Name} {
		if problems := content.IsPathSegmentName(segment); len(problems) > 0 {
			return nil, fmt.Errorf("get %s %q: %s", i.Kind(), key, problems[0])
		}
	}
	got, err := i.client.Get().AbsPath(i.resource.Load().Path(key)...).Do(ctx).Get()
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", i.Kind(), key, err)
	}
	o, ok := got.(*object.Object)
	if !ok {
		return nil, fmt.Errorf("get %s %s: the API server answered with a %T", i.Kind(), key, got)
	}
	return o, nil
}
