package cache

import (
	"context"
	"iter"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/thole-dev/thole/host/object"
)

// This file notices that the API server has gone back to an earlier state, as
// after a restore of etcd.
//
// Such a server accepts a watch from a resourceVersion that it has not reached
// yet, and leaves out every change until it has. Therefore the present version
// is read when a watch is continued: after the server has accepted it, since before that
// another one may have answered, whose state was not yet replaced. A server that is found
// to be at an older version is listed again, and the store is replaced.

// checkVersion returns an error, for which the reflector lists again, if the API
// server has gone back since the store was written. The read is a consistent one,
// so that a replica of the API server that lags behind is not mistaken for it.
func (l listWatch) checkVersion(ctx context.Context) error {
	req, err := l.request(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, l.cache.config.StallAfter)
	defer cancel()
	got, err := req.Do(bounded).Get()
	if err != nil {
		return err
	}
	list, ok := got.(*objectList)
	l.wentBack.Store(ok && l.store.isAhead(list.ResourceVersion, slices.Values(list.Items)))
	if l.wentBack.Load() {
		return apierrors.NewResourceExpired("the API server has gone back to resourceVersion " + list.ResourceVersion)
	}
	return nil
}

// consistent makes the request for all objects a consistent read if the API server
// has gone back. It would wait for the version of the reflector otherwise.
func (l listWatch) consistent(options metav1.ListOptions) metav1.ListOptions {
	if l.wentBack.Load() && options.Continue == "" {
		options.ResourceVersion = ""
	}
	return options
}

// restored records that the store was replaced by an earlier state.
func (i *informer) restored(from, to string) {
	i.health.log.Warn("the API server has gone back to an earlier state, reconciling everything afresh", "from", from, "to", to)
	i.cache.hooks.Restored(i.Kind())
}

// Restores returns how often the API server was found to have gone back to an
// earlier state. A resourceVersion that was seen before the last time must not be
// compared with one that is seen after it.
func (i *informer) Restores() uint64 {
	i.store.mu.RLock()
	defer i.store.mu.RUnlock()
	return i.store.restores
}

// isAhead reports whether the store has a later state than a consistent read of
// the API server, or than a list that was not to be older than the store. The
// version alone does not show it if etcd was restored with a version that was
// increased, or has reached that of the store again.
func (s *store) isAhead(version string, objects iter.Seq[*object.Object]) bool {
	if isBefore(version, s.position().version) {
		return true
	}
	for o := range objects {
		if have := s.find(o.Key()); have != nil && have.IsAfter(o, isBefore) {
			return true
		}
	}
	return false
}

// isBefore reports whether a resourceVersion is older than another one. It is not
// if they cannot be compared.
func isBefore(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
