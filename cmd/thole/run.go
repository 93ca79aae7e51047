package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/host"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/telemetry"
	"github.com/thole-dev/thole/host/with/standard"
	"github.com/thole-dev/thole/internal/kubeconfig"
)

// runFlags are the flags of thole run. Those that are set win over the file
// of --config.
type runFlags struct {
	configFile, kubeconfig string
	plugins, namespace     string
	listen                 string
	hostIdentity, dryRun   bool
	secure, profiling      bool
	logLevel, logFormat    string
}

func runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run every plugin of a directory against a cluster",
		Long: `Run every plugin of a directory against a cluster.

Each <name>.wasm in the directory is a plugin; files that are added, replaced
or removed while the host runs are taken up. Without --kubeconfig the host uses
the service account of its pod.`,
		Args: command.NoArgs("thole run takes flags only: name the directory of the plugins by --plugins"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.addConfig(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; default: the pod's service account")
	flags.StringVar(&f.logLevel, "log-level", "info", "trace, debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", "json", "json or text")
	return cmd
}

// addConfig adds the flags from which config makes the configuration.
func (f *runFlags) addConfig(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.plugins, "plugins", "", "directory of the plugins")
	flags.StringVar(&f.configFile, "config", "", "file with the host's configuration; flags win over it")
	flags.StringVar(&f.listen, "listen", "", "address of probes, metrics and plugin states (default 127.0.0.1:8080)")
	flags.BoolVar(&f.secure, "metrics-secure", false, "serve metrics, plugin states and profiles over TLS, to callers with a token who may get them; default: unless --listen is a loopback address")
	flags.BoolVar(&f.profiling, "profiling", false, "serve profiles of the process at /debug/pprof/")
	flags.AddFlagSet(sectionFlags(&config.Config{Sections: standard.Capabilities().Sections()}))
	flags.StringVar(&f.namespace, "namespace", "", "the one namespace to work in; default: all")
	flags.BoolVar(&f.hostIdentity, "host-identity", false, "let plugins without a service account act with the rights of the host")
	flags.BoolVar(&f.dryRun, "dry-run", false, "let the API server check every write and store none; log what would change")
}

func (f *runFlags) run(cmd *cobra.Command) error {
	config, err := f.config(cmd)
	if err != nil {
		return command.Misuse(cmd, err)
	}
	logger, err := telemetry.NewLogger(telemetry.LogConfig{Level: f.logLevel, Format: f.logFormat, Output: cmd.ErrOrStderr()})
	if err != nil {
		return command.Misuse(cmd, err)
	}
	telemetry.BridgeKubernetes(logger)
	cluster, err := f.cluster()
	if err == nil {
		err = serve(cmd, config, cluster, logger)
	}
	if err != nil && f.logFormat == "json" { // whoever reads the log reads nothing else
		logger.Error("the host has ended with an error", "error", command.ErrorText(err))
		return command.Logged(err)
	}
	return err
}

func serve(cmd *cobra.Command, config config.Config, cluster *rest.Config, logger hclog.Logger) error {
	// Before the start, during which a SIGHUP must not end the process.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	h, err := host.New(cmd.Context(), config, host.Environment{
		Cluster: cluster, Logger: logger, Events: telemetry.LogEvents(logger),
		Version: command.Version, Pod: podOf(os.Getenv, logger), Compiler: command.Compiler, Capabilities: standard.Capabilities(),
	})
	if err != nil {
		return err
	}
	return runHost(cmd.Context(), h, hangups)
}

// runHost runs a host, which tries refused plugins again on SIGHUP.
func runHost(ctx context.Context, h *host.Host, hangups <-chan os.Signal) error {
	stages, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancel(ctx)
	stages.Go(func() error {
		defer end()
		return h.Run(ctx)
	})
	stages.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-hangups:
				h.RetryRefused()
			}
		}
	})
	return stages.Wait()
}

// config is the file of --config with the flags that were given over it.
func (f *runFlags) config(cmd *cobra.Command) (config.Config, error) {
	return f.configWith(cmd, "")
}

// configWith is [runFlags.config], with a directory for when none is named.
func (f *runFlags) configWith(cmd *cobra.Command, plugins string) (config.Config, error) {
	return command.HostConfig(f.configFile, func(c *config.Config) {
		command.Override(cmd, "plugins", &c.Plugins, f.plugins)
		command.Override(cmd, "namespace", &c.Namespace, f.namespace)
		command.Override(cmd, "listen", &c.Listen, f.listen)
		command.Override(cmd, "metrics-secure", &c.Metrics.Secure, &f.secure)
		command.Override(cmd, "profiling", &c.Profiling, f.profiling)
		overrideSections(cmd, c)
		command.Override(cmd, "host-identity", &c.HostIdentity, f.hostIdentity)
		command.Override(cmd, "dry-run", &c.DryRun, f.dryRun)
		c.Plugins = cmp.Or(c.Plugins, plugins)
	})
}

// cluster returns how to reach the API server.
func (f *runFlags) cluster() (*rest.Config, error) {
	if f.kubeconfig != "" {
		return kubeconfig.Load(f.kubeconfig)
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("no --kubeconfig, and not in a pod: %w", err)
	}
	return config, nil
}
