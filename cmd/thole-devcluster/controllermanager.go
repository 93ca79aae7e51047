package main

import (
	"context"
	"fmt"
	"path/filepath"
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

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/datadir"
	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/supervise"
)

// controllerManagerKubeconfig is a file in the cluster's directory.
const controllerManagerKubeconfig = "controller-manager.kubeconfig"

// runControllerManager does not handle SIGTERM. As kube-controller-manager does,
// it simply ends: all of its state is in the API server. The arguments are the
// names of the controllers to run, beside the garbage collector.
func runControllerManager(self *supervise.Component, running []string) error {
	config, err := unlimitedConfig(controllerManagerKubeconfig)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := awaitAPIServer(ctx, config); err != nil {
		return err
	}
	if err := startGarbageCollector(ctx, config, self.Ready); err != nil {
		return fmt.Errorf("start garbage collector: %w", err)
	}
	if err := startControllers(ctx, config, running); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// awaitAPIServer blocks until the API server is ready, without a limit, which
// the parent has. The parent starts this component a second early. The program
// itself would look for the API server once per second only, and the garbage
// collector would miss the kinds that are not served yet.
func awaitAPIServer(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	ready := servesOK(client, "/readyz")
	return wait.PollUntilContextCancel(ctx, pollPeriod, true, func(ctx context.Context) (bool, error) {
		return ready(ctx) == nil, nil
	})
}

// pkiPath returns a path relative to the cluster's directory.
func pkiPath(name string) string { return filepath.Join(datadir.PKI, name) }

const (
	// newKindPeriod is how often the garbage collector looks for new kinds. In
	// kube-controller-manager it is 30 s, for which the children of a new custom
	// resource would outlive a deleted owner. Here new kinds are common.
	newKindPeriod = time.Second

	garbageWorkers = 10
)

// startGarbageCollector runs the garbage collector until ctx is done. It calls
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
	factory := metadatainformer.NewSharedInformerFactoryWithOptions(metadataClient, 0,
		metadatainformer.WithTransform(dropManagedFields))
	started := make(chan struct{})
	close(started)
	gc, err := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, mapper,
		garbagecollector.DefaultIgnoredResources(), metadataInformers{factory}, started)
	if err != nil {
		return err
	}
	go gc.Run(ctx, garbageWorkers, time.Minute)
	go gc.Sync(ctx, client.Discovery(), newKindPeriod)
	go func() {
		err := wait.PollUntilContextCancel(ctx, pollPeriod, true, func(context.Context) (bool, error) {
			return gc.IsSynced(klog.Background()), nil
		})
		if err == nil {
			synced()
		}
	}()
	return nil
}

// metadataInformers gives the garbage collector informers that hold metadata
// only, which is all that it needs of any kind.
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
