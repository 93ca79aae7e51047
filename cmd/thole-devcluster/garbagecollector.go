package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

const (
	// newKindPeriod is how often the garbage collector looks for new kinds.
	// kube-controller-manager fixes it at 30 s; until then the children of a
	// new custom resource outlive their deleted owner. Development is what has
	// new kinds all the time.
	newKindPeriod = time.Second

	garbageWorkers = 10
)

// startGarbageCollector runs the garbage collector until ctx ends and calls
// synced once, when every kind is watched.
func startGarbageCollector(ctx context.Context, config *rest.Config, synced func()) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	factory := metadatainformer.NewSharedInformerFactoryWithOptions(metadataClient, 0, metadatainformer.WithTransform(dropManagedFields))
	started := make(chan struct{})
	close(started)
	gc, err := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, mapper,
		garbagecollector.DefaultIgnoredResources(), metadataInformers{factory}, started)
	if err != nil {
		return err
	}
	go gc.Run(ctx, garbageWorkers, time.Minute)
	go gc.Sync(ctx, client.Discovery(), newKindPeriod)
	go callWhenSynced(ctx, gc, synced)
	return nil
}

func callWhenSynced(ctx context.Context, gc *garbagecollector.GarbageCollector, synced func()) {
	const period = 20 * time.Millisecond
	err := wait.PollUntilContextCancel(ctx, period, true, func(context.Context) (bool, error) {
		return gc.IsSynced(klog.Background()), nil
	})
	if err == nil {
		synced()
	}
}

// metadataInformers gives the garbage collector informers that hold metadata
// only; it needs nothing else of any kind.
type metadataInformers struct {
	metadatainformer.SharedInformerFactory
}

func (m metadataInformers) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	return m.SharedInformerFactory.ForResource(r), nil
}

func dropManagedFields(obj any) (any, error) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
	}
	return obj, nil
}
