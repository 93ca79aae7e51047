package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/thole-dev/thole/cmd/internal/controlplane"
)

// startControlPlane starts it in the demo's directory and waits until it
// serves.
func (d *demo) startControlPlane(ctx context.Context) error {
	d.out.begin("control plane")
	clock := newStopwatch()
	cmd, ready, err := controlplane.Command(d.devcluster, d.path("control-plane"), d.path("kubeconfig"))
	if err != nil {
		return err
	}
	if err := d.start("control plane", "control-plane.log", cmd, nil); err != nil {
		return err
	}
	select {
	case <-ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := d.connect(); err != nil {
		return err
	}
	version, err := d.serverVersion()
	if err != nil {
		return err
	}
	d.out.end("ready in "+clock.elapsed(), "kube-apiserver "+version+", etcd, controller-manager")
	return nil
}

// connect makes the client of everything that the demo itself does.
func (d *demo) connect() error {
	// What client-go has to say is not part of the story: errors come back to
	// us, and a lost watch is tried again.
	klog.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", d.path("kubeconfig"))
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1 // a handful of requests
	config.UserAgent = fieldManager
	d.cluster = config
	d.client, err = dynamic.NewForConfig(config)
	return err
}

func (d *demo) serverVersion() (string, error) {
	config := rest.CopyConfig(d.cluster)
	config.Timeout = askTimeout
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	info, err := client.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask for the API server's version: %w", err)
	}
	return info.GitVersion, nil
}

// path is a path in the demo's directory.
func (d *demo) path(elem ...string) string {
	return filepath.Join(append([]string{d.dir}, elem...)...)
}
