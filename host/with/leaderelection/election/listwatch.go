package election

import (
	"context"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// newReflector returns what keeps the store up to date. After a failure it tries again every
// retry period: the pauses of an informer grow to a minute, in which a replica would not see
// that a Lease is renewed, and so not when it ceases to be.
func newReflector(e *Election) *cache.Reflector {
	l := &listWatch{e: e}
	lw := &cache.ListWatch{ListWithContextFunc: l.list, WatchFuncWithContext: l.watch}
	return cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, e.Client), &coordinationv1.Lease{}, e.store,
		cache.ReflectorOptions{Backoff: &wait.Backoff{Duration: e.RetryPeriod, Jitter: 0.1}})
}

// store has the Leases as the API server has them, and has the election observe each change.
type store struct {
	cache.Store
	synced  atomic.Bool
	observe func(before, after *coordinationv1.Lease) // one is nil for what was added or deleted
}

func newStore(observe func(before, after *coordinationv1.Lease)) *store {
	return &store{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), observe: observe}
}

// find returns the present version of a Lease, nil if there is none.
func (s *store) find(o any) *coordinationv1.Lease {
	found, _, _ := s.Get(o) // fails for what is no object only
	lease, _ := found.(*coordinationv1.Lease)
	return lease
}

// Add implements [cache.ReflectorStore].
func (s *store) Add(o any) error { return s.Update(o) }

// Update implements [cache.ReflectorStore].
func (s *store) Update(o any) error {
	before := s.find(o)
	err := s.Store.Update(o)
	s.observe(before, s.find(o))
	return err
}

// Delete implements [cache.ReflectorStore].
func (s *store) Delete(o any) error {
	before := s.find(o)
	err := s.Store.Delete(o)
	s.observe(before, nil)
	return err
}

// Replace implements [cache.ReflectorStore].
func (s *store) Replace(all []any, version string) error {
	before := s.List()
	versions := make([]*coordinationv1.Lease, 0, len(all))
	for _, o := range all {
		versions = append(versions, s.find(o))
	}
	err := s.Store.Replace(all, version)
	s.synced.Store(true)
	for i, o := range all {
		s.observe(versions[i], s.find(o))
	}
	for _, o := range before {
		if s.find(o) == nil {
			s.observe(o.(*coordinationv1.Lease), nil)
		}
	}
	return err
}

// listWatch reads the Leases, and notes whether that can be done.
type listWatch struct {
	e *Election
	// The API server has gone back to an earlier state, as after a restore of etcd, and the Leases
	// are to be listed again. Such a server accepts a watch from a resourceVersion that it has
	// not reached yet, and leaves out every change until it has.
	wentBack atomic.Bool
}

func (l *listWatch) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := l.e.Client.List(ctx, l.consistent(options))
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.e.listErr = err
	return list, err
}

func (l *listWatch) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	streamed := options.SendInitialEvents != nil
	if streamed {
		options = l.consistent(options)
	}
	w, err := l.e.Client.Watch(ctx, options)
	if err == nil && !streamed {
		if err = l.checkVersion(ctx, options.ResourceVersion); err != nil {
			w.Stop()
		}
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if l.e.watchErr = err; err != nil {
		return nil, err
	}
	l.e.listErr = nil // it may have been a list that is streamed
	return w, nil
}

// consistent makes a list a consistent read if the API server has gone back. It would wait for
// the version of the reflector otherwise.
func (l *listWatch) consistent(options metav1.ListOptions) metav1.ListOptions {
	if l.wentBack.Load() && options.Continue == "" {
		options.ResourceVersion = ""
	}
	return options
}

// checkVersion returns an error, for which the reflector lists again, if the API server, which
// has accepted a watch from a version, has not reached that.
func (l *listWatch) checkVersion(ctx context.Context, from string) error {
	ctx, cancel := context.WithTimeout(ctx, l.e.requestTimeout())
	defer cancel()
	now, err := l.e.Client.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	l.wentBack.Store(isBefore(now.ResourceVersion, from))
	if l.wentBack.Load() {
		return apierrors.NewResourceExpired("the API server has gone back to resourceVersion " + now.ResourceVersion)
	}
	return nil
}
