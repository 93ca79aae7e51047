package host

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
)

// dispatchCache is the cache as one controller of dispatch wants it.
type dispatchCache struct {
	cache      *cache.Cache
	controller string     // plugin/controller: who reads
	kind       abi.Kind   // of the primary
	kinds      *informers // of the plugin
}

var _ dispatch.Cache = dispatchCache{}

// Get finds nothing for a controller that has ended: an event that was being
// handed to it may still ask.
func (c dispatchCache) Get(key object.Key) (*object.Object, bool) {
	informer := c.kinds.get(c.kind)
	if informer == nil {
		return nil, false
	}
	return informer.Get(key)
}

func (c dispatchCache) Live(ctx context.Context, key object.Key) (*object.Object, error) {
	obj, err := c.kinds.get(c.kind).Live(ctx, key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return obj, err
}

// CaughtUp waits for the informer of the write's kind. A kind without one
// (written but not read) has nothing to wait for.
func (c dispatchCache) CaughtUp(ctx context.Context, write dispatch.Write) error {
	informer := c.kinds.get(write.Kind)
	if informer == nil {
		return nil
	}
	return informer.WaitReached(ctx, write.ResourceVersion)
}

func (c dispatchCache) Begin(key object.Key) dispatch.Reads {
	return dispatchReads{c.cache.Begin(cache.Owner{Controller: c.controller, Key: key})}
}

func (c dispatchCache) Namespaced(ctx context.Context, kind abi.Kind) (bool, error) {
	resource, err := c.cache.Resource(ctx, kind)
	return resource.Namespaced, err
}

func (c dispatchCache) Forget(key object.Key) {
	c.cache.Forget(cache.Owner{Controller: c.controller, Key: key})
}

// dispatchReads are the reads of one run as dispatch wants them.
type dispatchReads struct{ *cache.Run }

func (r dispatchReads) Get(ctx context.Context, kind abi.Kind, key object.Key) (*object.Object, bool, error) {
	obj, ok, err := r.Run.Get(ctx, kind, key)
	return obj, ok, readError(err)
}

func (r dispatchReads) List(ctx context.Context, kind abi.Kind, namespace string, selector labels.Selector) ([]*object.Object, error) {
	objects, err := r.Run.List(ctx, kind, namespace, selector)
	return objects, readError(err)
}

func readError(err error) error {
	if errors.Is(err, cache.ErrNotSynced) {
		return dispatch.ErrNotSynced
	}
	return err
}

// effectStore is the cache as effect wants it.
type effectStore struct {
	cache *cache.Cache
	kinds *informers
}

func (s effectStore) Resource(ctx context.Context, kind abi.Kind) (object.Resource, error) {
	return s.cache.Resource(ctx, kind)
}

func (s effectStore) Get(kind abi.Kind, key object.Key) (*object.Object, bool) {
	informer := s.kinds.get(kind)
	if informer == nil || !informer.HasSynced() {
		return nil, false
	}
	obj, _ := informer.Get(key)
	return obj, true
}
