package main

import (
	"fmt"
	"net"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/datadir"
	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/pki"
	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/supervise"
)

// runAPIServer does what the command kube-apiserver does, but serves on a
// listener that it has inherited, with more flags than its own. So the port is known before anything starts,
// and no other program can take it in between. The parent polls /readyz.
func runAPIServer(self *supervise.Component, more []string) error {
	listener, err := net.FileListener(self.File(fileListener))
	if err != nil {
		return fmt.Errorf("use the inherited listener: %w", err)
	}
	ctx := genericapiserver.SetupSignalContext()
	rest.SetDefaultWarningHandler(rest.NoWarnings{})

	o := apiserveroptions.NewServerRunOptions()
	if err := parse(o, append(apiServerFlags(), more...)); err != nil {
		return err
	}
	o.SecureServing.Listener = listener
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return fmt.Errorf("complete options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return fmt.Errorf("validate options: %w", utilerrors.NewAggregate(errs))
	}
	return app.Run(ctx, completed)
}

func parse(o *apiserveroptions.ServerRunOptions, args []string) error {
	sets := o.Flags()
	flags := pflag.NewFlagSet(componentAPIServer, pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("parse flags: %w", err)
	}
	return nil
}

func apiServerFlags() []string {
	return []string{
		"--etcd-servers=unix://" + datadir.EtcdSocket,
		// A loopback address cannot be published as an endpoint of the service
		// "kubernetes"; nothing in the cluster could use it either.
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--tls-cert-file=" + pkiPath(pki.CertFile(pki.APIServer)),
		"--tls-private-key-file=" + pkiPath(pki.KeyFile(pki.APIServer)),
		"--client-ca-file=" + pkiPath(pki.CertFile(pki.Authority)),
		"--authorization-mode=RBAC",
		// Without it, the API server waits for its watches before it ends.
		"--shutdown-watch-termination-grace-period=1s",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pkiPath(pki.ServiceAccountKey),
		"--service-account-signing-key-file=" + pkiPath(pki.ServiceAccountKey),
	}
}
