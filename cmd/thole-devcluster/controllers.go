package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	serviceaccounts "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/pki"
)

// controllers make the ones that have work in a cluster without nodes, by their names
// in kube-controller-manager, whose program links some 300 packages more. The garbage
// collector is not among them, because it is started beside them. --without-controllers
// leaves some of them out.
var controllers = map[string]func(context.Context, *controllerContext) (runner, error){
	names.NamespaceController:                  newNamespaces,
	names.ServiceAccountController:             newServiceAccounts,
	names.ServiceAccountTokenController:        newTokens,
	names.RootCACertificatePublisherController: newRootCA,
	names.ClusterRoleAggregationController:     newClusterRoles, // fills the roles admin, edit and view
	names.DeploymentController:                 newDeployments,
	names.ReplicaSetController:                 newReplicaSets,
	names.JobController:                        newJobs,
	names.PodGarbageCollectorController:        newTerminatingPods,
}

// runner runs a controller until its context is done.
type runner func(ctx context.Context, workers int)

// controllerWorkers is how many workers each controller has, which is what
// kube-controller-manager gives to most of them.
const controllerWorkers = 5

// controllerContext is what controllers are made with.
type controllerContext struct {
	config    *rest.Config
	client    *kubernetes.Clientset
	informers informers.SharedInformerFactory
	authority []byte // PEM
}

// runningControllers returns the names of the controllers that run, or an error if one
// that is left out is not known.
func runningControllers(without []string) ([]string, error) {
	known := slices.Sorted(maps.Keys(controllers))
	for _, name := range without {
		if !slices.Contains(known, name) {
			return nil, usageError{fmt.Errorf("--without-controllers: %q is none of %s", name, strings.Join(known, ", "))}
		}
	}
	return slices.DeleteFunc(known, func(name string) bool { return slices.Contains(without, name) }), nil
}

// startControllers runs the named controllers until ctx is done.
func startControllers(ctx context.Context, config *rest.Config, running []string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	authority, err := os.ReadFile(pkiPath(pki.CertFile(pki.Authority)))
	if err != nil {
		return fmt.Errorf("read authority: %w", err)
	}
	c := &controllerContext{config, client, informers.NewSharedInformerFactory(client, 0), authority}
	for _, name := range running {
		run, err := controllers[name](ctx, c)
		if err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		go run(ctx, controllerWorkers)
	}
	c.informers.StartWithContext(ctx)
	return nil
}

func newNamespaces(ctx context.Context, c *controllerContext) (runner, error) {
	client, err := metadata.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	return namespace.NewNamespaceController(ctx, c.client, client, c.client.Discovery().ServerPreferredNamespacedResources,
		c.informers.Core().V1().Namespaces(), 5*time.Minute, corev1.FinalizerKubernetes).Run, nil
}

func newServiceAccounts(ctx context.Context, c *controllerContext) (runner, error) {
	core := c.informers.Core().V1()
	accounts, err := serviceaccounts.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(),
		c.client, serviceaccounts.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return accounts.Run, nil
}

// newTokens makes the controller that fills secrets of type kubernetes.io/service-account-token.
func newTokens(ctx context.Context, c *controllerContext) (runner, error) {
	key, err := keyutil.PrivateKeyFromFile(pkiPath(pki.ServiceAccountKey))
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	core := c.informers.Core().V1()
	tokens, err := serviceaccounts.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), c.client,
		serviceaccounts.TokensControllerOptions{TokenGenerator: generator, RootCA: c.authority})
	if err != nil {
		return nil, err
	}
	return tokens.Run, nil
}

func newRootCA(_ context.Context, c *controllerContext) (runner, error) {
	core := c.informers.Core().V1()
	publisher, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), c.client, c.authority)
	if err != nil {
		return nil, err
	}
	return publisher.Run, nil
}

func newClusterRoles(_ context.Context, c *controllerContext) (runner, error) {
	return clusterroleaggregation.NewClusterRoleAggregation(c.informers.Rbac().V1().ClusterRoles(), c.client.RbacV1()).Run, nil
}

func newDeployments(ctx context.Context, c *controllerContext) (runner, error) {
	apps := c.informers.Apps().V1()
	d, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), c.informers.Core().V1().Pods(), c.client)
	if err != nil {
		return nil, err
	}
	return d.Run, nil
}

func newReplicaSets(ctx context.Context, c *controllerContext) (runner, error) {
	return replicaset.NewReplicaSetController(ctx, c.informers.Apps().V1().ReplicaSets(), c.informers.Core().V1().Pods(),
		c.client, replicaset.BurstReplicas).Run, nil
}

// newJobs makes the controller of jobs. It needs the informers of the group scheduling
// only for a feature that is off.
func newJobs(ctx context.Context, c *controllerContext) (runner, error) {
	jobs, err := job.NewController(ctx, c.client, c.informers.Core().V1().Pods(), c.informers.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		return nil, err
	}
	return jobs.Run, nil
}

// terminatingPodsPeriod is how often pods are looked at whose deletion stopped
// half-way. In kube-controller-manager it is 20 s.
const terminatingPodsPeriod = time.Second

// newTerminatingPods does the part of the pod garbage collector that has work without
// nodes; the whole of it links the scheduler. It removes pods whose deletion stopped
// half-way: the API server marks and removes a pod without a node in two writes of one
// request, and a client that dies between them ends the request.
func newTerminatingPods(_ context.Context, c *controllerContext) (runner, error) {
	pods := c.informers.Core().V1().Pods()
	lister := pods.Lister() // before the factory starts, so that it starts the informer
	return func(ctx context.Context, _ int) {
		wait.UntilWithContext(ctx, func(ctx context.Context) { removeTerminatingPods(ctx, c.client, lister) }, terminatingPodsPeriod)
	}, nil
}

func removeTerminatingPods(ctx context.Context, client kubernetes.Interface, lister corelisters.PodLister) {
	all, err := lister.List(labels.Everything())
	if err != nil {
		klog.FromContext(ctx).Error(err, "list pods")
		return
	}
	for _, pod := range all {
		if pod.DeletionTimestamp == nil || pod.Spec.NodeName != "" {
			continue
		}
		now := int64(0)
		err := client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
			metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if err != nil {
			klog.FromContext(ctx).Info("cannot remove a terminating pod", "pod", klog.KObj(pod), "reason", err)
		}
	}
}
