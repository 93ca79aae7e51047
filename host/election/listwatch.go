package election

import (
	"context"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"
)

// listWatch reads the Leases, and notes whether that can be done.
type listWatch struct {
	e *Election
	// The API server has gone back to an earlier state, as after a restore of etcd, and the Leases
	// are to be listed again. Such a server accepts a watch from a resourceVersion that it has
	// not reached yet, and leaves out every change until it has.
	wentBack atomic.Bool
}

func (l *listWatch) toCache() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return l.list(ctx, options)
		},
		WatchFuncWithContext: l.watch,
	}
}

func (l *listWatch) leases() coordinationclient.LeaseInterface {
	return l.e.Client.CoordinationV1().Leases(l.e.Namespace)
}

func (l *listWatch) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := l.leases().List(ctx, l.consistent(options))
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
	w, err := l.leases().Watch(ctx, options)
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
	now, err := l.leases().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	l.wentBack.Store(isBefore(now.ResourceVersion, from))
	if l.wentBack.Load() {
		return apierrors.NewResourceExpired("the API server has gone back to resourceVersion " + now.ResourceVersion)
	}
	return nil
}
