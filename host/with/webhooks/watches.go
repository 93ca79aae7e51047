package webhooks

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/thole-dev/thole/host/internal/explain"
)

// This file has how the registrar learns what there is.

// follow follows the webhook configurations of the host.
func (r *Registrar) follow(ctx context.Context, running *sync.WaitGroup) {
	selector := labels.Set{labelHost: r.label}.String()
	kick := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { r.Kick() }, UpdateFunc: func(any, any) { r.Kick() }, DeleteFunc: func(any) { r.Kick() }}
	for _, resource := range []schema.GroupVersionResource{validatingResource, mutatingResource} {
		client := r.Client.Resource(resource)
		informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.LabelSelector = selector
				return client.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.LabelSelector = selector
				return client.Watch(ctx, o)
			},
		}, r.Client), &unstructured.Unstructured{}, 0, cache.Indexers{})
		_ = informer.SetTransform(withoutManagedFields) // it has not started
		_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
			r.Logger.Debug("cannot follow", "resource", resource.Resource, "error", explain.Forbidden(err))
		})
		_, _ = informer.AddEventHandler(kick)
		r.stores[resource], r.synced = informer.GetStore(), append(r.synced, informer.HasSynced)
		running.Go(func() { informer.RunWithContext(ctx) })
	}
}

func withoutManagedFields(o any) (any, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
	}
	return o, nil
}

// hasSynced reports whether it is known what there is.
func (r *Registrar) hasSynced() bool {
	return !slices.ContainsFunc(r.synced, func(synced cache.InformerSynced) bool { return !synced() })
}

// shown returns a webhook configuration as it is followed, nil if there is none.
func (r *Registrar) shown(t target) *unstructured.Unstructured {
	if store := r.stores[t.resource]; store != nil {
		if o, exists, err := store.GetByKey(t.name); err == nil && exists {
			return o.(*unstructured.Unstructured)
		}
	}
	return nil
}

// isAsWritten reports whether an object is still as it was written.
func (r *Registrar) isAsWritten(t target, w *written) bool {
	if time.Since(w.at) > resyncEvery {
		return false
	}
	if t.resource == crdResource {
		r.mu.Lock()
		defer r.mu.Unlock()
		changed := r.changed[t.name]
		delete(r.changed, t.name)
		return !changed
	}
	if !r.hasSynced() {
		return true
	}
	shown := r.shown(t)
	return shown != nil && shown.GetResourceVersion() == w.version
}

// watchOnly watches the CustomResourceDefinitions that are converted, and no others.
func (r *Registrar) watchOnly(ctx context.Context, running *sync.WaitGroup, converted map[string]string) {
	for name, stop := range r.watching {
		if converted[name] == "" {
			stop()
			delete(r.watching, name)
			delete(r.written, target{crdResource, name})
		}
	}
	for name := range converted {
		if r.watching[name] == nil {
			watching, stop := context.WithCancel(ctx)
			r.watching[name] = stop
			running.Go(func() { r.watch(watching, name) })
		}
	}
}

// watch makes the registrar look at a CustomResourceDefinition whenever something of it changes.
func (r *Registrar) watch(ctx context.Context, name string) {
	for ctx.Err() == nil {
		r.note(name)
		events, err := r.Client.Resource(crdResource).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err == nil {
			for range events.ResultChan() {
				r.note(name)
			}
			events.Stop()
		} else {
			r.Logger.Debug("cannot watch", "object", name, "error", explain.Forbidden(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
}

// note records an event of a CustomResourceDefinition.
func (r *Registrar) note(name string) {
	r.mu.Lock()
	r.changed[name] = true
	r.mu.Unlock()
	r.Kick()
}
