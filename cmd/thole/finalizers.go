package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/finalizers"
	"github.com/thole-dev/thole/internal/kubeconfig"
)

// finalizersFlags are the flags of thole finalizers.
type finalizersFlags struct {
	kubeconfig, namespace string
	everywhere            bool
	release, dryRun       bool
}

func finalizersCommand() *cobra.Command {
	var f finalizersFlags
	cmd := &cobra.Command{
		Use:   "finalizers PLUGIN[/CONTROLLER] [KIND...]",
		Short: "List, or release, the finalizers that a plugin has left on objects",
		Long: `List the objects that carry the finalizers of a plugin or of one of its
controllers; with --release, take these finalizers off, and no other.

A plugin that is removed cannot clean up any more, and an object that still
carries its finalizer cannot be deleted. Putting the plugin back makes it clean
up. Releasing gives that up: what the plugin made outside of the cluster stays
behind. Release only when the plugin is gone from every host: a running plugin
puts its finalizers back, and this command cannot detect that.

KIND is a kind as kubectl names it, or as the host reports it:
PodManager.v1.example.thole.dev. Without one, every kind of the cluster is
searched.

The cluster is that of --kubeconfig, of $KUBECONFIG or ~/.kube/config, or that
of the pod. The exit code is 1 if something failed or could not be searched, and
0 if there is nothing to release.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Misuse(cmd, errors.New("name the plugin: thole finalizers PLUGIN"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0], args[1:]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "the namespace to look in; default: the kubeconfig's")
	flags.BoolVarP(&f.everywhere, "all-namespaces", "A", false, "look in every namespace")
	flags.BoolVar(&f.release, "release", false, "take the finalizers off")
	flags.BoolVar(&f.dryRun, "dry-run", false, "with --release: let the API server check every write and store none")
	return cmd
}

func (f *finalizersFlags) run(cmd *cobra.Command, plugin string, kinds []string) error {
	owner, err := finalizers.ParseOwner(plugin)
	switch {
	case err != nil:
	case f.everywhere && cmd.Flags().Changed("namespace"):
		err = errors.New("-A and -n exclude each other")
	case f.namespace != "" && config.ValidateNamespace(f.namespace) != nil:
		err = config.ValidateNamespace(f.namespace)
	case f.dryRun && !f.release:
		err = errors.New("--dry-run goes with --release; without it nothing is written")
	}
	if err != nil {
		return command.Misuse(cmd, err)
	}
	cluster, namespace, err := f.cluster()
	if err != nil {
		return err
	}
	config := finalizers.Config{
		Cluster: cluster, Version: command.Version, Owner: owner, Kinds: kinds, Namespace: namespace, DryRun: f.dryRun,
	}
	held, incomplete := finalizers.Find(cmd.Context(), config)
	if !f.release || len(held) == 0 {
		return errors.Join(f.list(cmd, config, held, incomplete == nil), incomplete)
	}
	return errors.Join(f.releaseAll(cmd, config, held), incomplete)
}

// cluster returns how to reach the API server, and the namespace to look in.
func (f *finalizersFlags) cluster() (config *rest.Config, namespace string, err error) {
	if f.kubeconfig != "" {
		config, namespace, err = kubeconfig.LoadContext(f.kubeconfig)
	} else {
		loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil)
		if config, err = loader.ClientConfig(); err == nil {
			namespace, _, err = loader.Namespace()
		}
		if clientcmd.IsEmptyConfig(err) {
			err = errors.New("there is none in $KUBECONFIG or ~/.kube/config, and this is not a pod")
		}
		if err != nil {
			err = fmt.Errorf("find the cluster: name its --kubeconfig: %w", err)
		}
	}
	if f.everywhere || f.namespace != "" {
		namespace = f.namespace
	}
	return config, namespace, err
}

// list prints the objects that carry the finalizers.
func (f *finalizersFlags) list(cmd *cobra.Command, c finalizers.Config, held []finalizers.Held, complete bool) error {
	if len(held) == 0 {
		if complete {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: no object carries its finalizers\n", where(c))
		}
		return nil
	}
	if err := printHeld(cmd.OutOrStdout(), held); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: --release removes these %d finalizers; the plugin must be gone, or it puts them back\n", where(c), len(held))
	return nil
}

// where describes whose finalizers were searched, and where.
func where(c finalizers.Config) string {
	if c.Namespace == "" {
		return fmt.Sprintf("%s in all namespaces", c.Owner)
	}
	return fmt.Sprintf("%s in namespace %s (-A for all)", c.Owner, c.Namespace)
}

func printHeld(w io.Writer, held []finalizers.Held) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NAMESPACE\tNAME\tKIND\tFINALIZER\tDELETING SINCE")
	for _, h := range held {
		since := "-"
		if at := h.Object.DeletionTimestamp; at != nil {
			since = at.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", cmp.Or(h.Object.Namespace, "-"), h.Object.Name, finalizers.KindName(h.Kind.Kind), h.Finalizer, since)
	}
	return table.Flush()
}

func (f *finalizersFlags) releaseAll(cmd *cobra.Command, c finalizers.Config, held []finalizers.Held) error {
	word := "released"
	if c.DryRun {
		word = "would release"
	}
	failed, err := finalizers.Release(cmd.Context(), c, held, func(h finalizers.Held, err error) {
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "thole: %v\n", err)
			return
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s of %s %s\n", word, h.Finalizer, finalizers.KindName(h.Kind.Kind), h.Object.Key())
	})
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d finalizers were not released", failed, len(held)))
	}
	return err
}
