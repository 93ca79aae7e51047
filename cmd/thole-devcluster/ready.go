package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/supervise"
)

const (
	// startLimit bounds each step of a start. On an idle machine each takes
	// under a second.
	startLimit = 2 * time.Minute

	pollPeriod = 25 * time.Millisecond
)

// condition says whether a step of the start is reached. An error says no and
// is shown only when the limit is.
type condition func(context.Context) error

// await waits for a condition that p brings about, as long as every role
// lives.
func (c *cluster) await(ctx context.Context, p *supervise.Process, what string, reached condition) error {
	ctx, cancel := c.whileAlive(ctx)
	defer cancel()
	limit := time.After(startLimit)
	for {
		err := reached(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit:
			return fmt.Errorf("waited %s for %s: %w; %s", startLimit, what, err, p.LogTail())
		case <-time.After(pollPeriod):
		}
	}
}

func reported(p *supervise.Process) condition {
	return func(context.Context) error {
		select {
		case <-p.Ready():
			return nil
		default:
			return errors.New("it has not reported")
		}
	}
}

func newClient(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := unlimitedConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = 10 * time.Second
	return kubernetes.NewForConfig(config)
}

// unlimitedConfig does not keep the caller to client-go's 5 requests per
// second.
func unlimitedConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}

// answering is reached when the API server answers a path with OK.
func answering(client *kubernetes.Clientset, path string) condition {
	return func(ctx context.Context) error {
		return client.RESTClient().Get().AbsPath(path).Do(ctx).Error()
	}
}

// settled is reached when the default namespace holds what every namespace
// gets and what pods need to be admitted.
func settled(client *kubernetes.Clientset) condition {
	core := client.CoreV1()
	return func(ctx context.Context) error {
		_, err := core.ServiceAccounts(corev1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = core.ConfigMaps(corev1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	}
}
