package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/inspect"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/with/standard"
	"github.com/thole-dev/thole/internal/kubeconfig"
)

// rbacFlags are the flags of thole rbac.
type rbacFlags struct {
	account, hostAccount              string
	kubeconfig, configFile, namespace string
	constrained                       bool
}

func rbacCommand() *cobra.Command {
	var f rbacFlags
	cmd := &cobra.Command{
		Use:   "rbac FILE",
		Short: "Print the service account, roles and bindings that a plugin needs",
		Long: `Print the service account that a plugin acts as, and the roles and bindings that
it and the host need for that, as YAML for kubectl apply -f -.

FILE is NAME.wasm, and NAME.yaml beside it is the plugin's policy: what that does
not allow is not in the roles. They are for the namespaces that the policy and the
manifest name, and for all where these name none.

The account is that of --service-account, or that of the policy, which must name
it when the plugin runs. With --config the policy may have no more than the
configuration of the host allows.

With --kubeconfig the resources of the plugin's kinds are looked up in a cluster;
without, those of custom kinds are guessed. If the API server has constrained
impersonation, as Kubernetes 1.36 does, the host may use the account only for
what the plugin needs; otherwise, and without --kubeconfig, for everything.

If the plugin would be refused, or its policy allows too little, nothing is
printed but the reason, and the exit code is 1.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Misuse(cmd, errors.New("name the one file of a plugin: thole rbac FILE"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.account, "service-account", "", "NAMESPACE/NAME that the plugin acts as; default: that of its policy")
	flags.StringVar(&f.hostAccount, "host-service-account", "thole-system/thole", "NAMESPACE/NAME that the host acts as")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster in which the plugin's kinds are looked up; default: none")
	flags.StringVar(&f.configFile, "config", "", "file with the configuration of the host, which bounds the policy")
	flags.StringVar(&f.namespace, "namespace", "", "the one namespace that the host works in; default: all")
	flags.BoolVar(&f.constrained, "constrained-impersonation", false, "the API server has constrained impersonation; default: by its version")
	return cmd
}

func (f *rbacFlags) run(cmd *cobra.Command, file string) error {
	o, err := f.accounts()
	if err != nil {
		return command.Misuse(cmd, err)
	}
	o.Host, err = command.HostConfig(f.configFile, func(c *config.Config) {
		c.Plugins = command.NoDirectory
		command.Override(cmd, "namespace", &c.Namespace, f.namespace)
	})
	if err != nil {
		return command.Misuse(cmd, err)
	}
	load := inspect.Options{Host: o.Host, Compiler: command.Compiler, Capabilities: standard.Capabilities().Modules(), Rules: standard.Capabilities().Rules}
	if f.kubeconfig != "" {
		if load.Cluster, err = kubeconfig.Load(f.kubeconfig); err != nil {
			return err
		}
	}
	report, err := inspect.File(cmd.Context(), file, load)
	if err != nil {
		return err
	}
	if err := report.Refused(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	o.Rules = standard.Capabilities().PluginRules(report.Name, o.Host.WithDefaults().Values, o.HostAccount.Namespace)
	if err := f.readPolicy(cmd, report, &o); err != nil {
		return err
	}
	if o.Constrained, err = f.isConstrained(cmd, load.Cluster); err != nil {
		return err
	}
	text, err := report.RBAC(o)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

// isConstrained reports whether the API server has constrained impersonation; cluster is nil if
// there is none to ask.
func (f *rbacFlags) isConstrained(cmd *cobra.Command, cluster *rest.Config) (bool, error) {
	if cluster == nil || cmd.Flags().Changed("constrained-impersonation") {
		return f.constrained, nil
	}
	return inspect.HasConstrainedImpersonation(cluster)
}

// accounts are those of the flags.
func (f *rbacFlags) accounts() (o inspect.RBACOptions, err error) {
	if o.HostAccount, err = rights.ParseAccount(f.hostAccount); err != nil {
		return o, fmt.Errorf("--host-service-account %q %w", f.hostAccount, err)
	}
	if f.account == "" {
		return o, nil
	}
	if o.Account, err = rights.ParseAccount(f.account); err != nil {
		return o, fmt.Errorf("--service-account %q %w", f.account, err)
	}
	return o, nil
}

// readPolicy reads the policy beside the file of the report, if there is one, and completes the
// options by it.
func (f *rbacFlags) readPolicy(cmd *cobra.Command, report *inspect.Report, o *inspect.RBACOptions) error {
	text, err := os.ReadFile(strings.TrimSuffix(report.File, ".wasm") + ".yaml")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the policy: %w", err)
	}
	o.Host = o.Host.WithDefaults()
	if f.configFile == "" {
		o.Host = o.Host.Unbounded(report.Name, text)
	}
	if o.Policy, err = o.Host.ReadPolicy(report.Name, text); err != nil {
		return err
	}
	if f.account == "" {
		o.Account = o.Policy.Account()
	}
	if o.Account == (rights.Account{}) {
		return command.Misuse(cmd, fmt.Errorf("the plugin has no service account: name one by --service-account, or as serviceAccount in %s.yaml", report.Name))
	}
	if f.configFile != "" {
		return o.Host.MayActAs(report.Name, o.Account)
	}
	return nil
}
