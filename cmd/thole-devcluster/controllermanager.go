package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/datadir"
	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/pki"
	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/supervise"
)

// controllers are those that a cluster without nodes has work for. The
// garbage collector is missing here because it is run beside them.
var controllers = []string{
	names.NamespaceController,
	names.ServiceAccountController,
	names.ServiceAccountTokenController,
	names.RootCACertificatePublisherController,
	names.ClusterRoleAggregationController, // fills admin, edit and view
	names.DeploymentController,
	names.ReplicaSetController,
	names.JobController,
	// Ends a pod whose deletion stopped half-way: without a node it is marked
	// and removed in two writes of one request, between which a client that
	// dies takes the request with it.
	names.PodGarbageCollectorController,
}

// controllerManagerKubeconfig is in the cluster's directory.
const controllerManagerKubeconfig = "controller-manager.kubeconfig"

// runControllerManager has no handler for SIGTERM: like the program that it
// runs it simply ends, for all it knows is in the API server.
func runControllerManager(self *supervise.Role) error {
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
	cmd := app.NewControllerManagerCommand()
	cmd.SetArgs(controllerManagerFlags())
	return cmd.Execute()
}

// awaitAPIServer waits as long as it takes: the parent starts this role a second
// before the API server is ready, and is the one to lose patience. The program
// itself asks once per second, and the garbage collector would not see what is
// not served yet.
func awaitAPIServer(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	answers := answering(client, "/readyz")
	return wait.PollUntilContextCancel(ctx, pollPeriod, true, func(ctx context.Context) (bool, error) {
		return answers(ctx) == nil, nil
	})
}

func controllerManagerFlags() []string {
	return []string{
		"--kubeconfig=" + controllerManagerKubeconfig,
		"--controllers=" + strings.Join(controllers, ","),
		"--root-ca-file=" + pkiPath(pki.CertFile(pki.Authority)),
		"--service-account-private-key-file=" + pkiPath(pki.ServiceAccountKey),
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}
}

// pkiPath is relative to the cluster's directory.
func pkiPath(name string) string { return filepath.Join(datadir.PKI, name) }
