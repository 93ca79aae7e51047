package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/inspect"
	"github.com/thole-dev/thole/host/with/standard"
	"github.com/thole-dev/thole/internal/kubeconfig"
)

// inspectFlags are the flags of thole inspect.
type inspectFlags struct{ output, kubeconfig, configFile string }

func inspectCommand() *cobra.Command {
	var f inspectFlags
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show what a plugin is and needs, and whether a host would load it",
		Long: `Show what a plugin is and needs, and whether a host would load it.

The file is loaded as thole run loads it: in the sandbox, with its limits. No
reconcile is run, and no cluster is needed. With --kubeconfig, the resources of
the plugin's kinds and what their schemas leave of the status that the host
writes are looked up in a cluster; without, those of custom kinds are guessed.

The policy beside the file is read, and its limits apply; --config is what
bounds it. If the plugin needs more to start, the smallest policy is shown. Of
what the plugin writes it has every verb: remove those that it does not need.

The exit code is 0 if the plugin would be loaded and 1 if not.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Misuse(cmd, errors.New("name the one file of a plugin: thole inspect FILE"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.inspect(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "table", strings.Join(inspect.Formats(), ", "))
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster in which the plugin's kinds are looked up; default: none")
	flags.StringVar(&f.configFile, "config", "", "file with the configuration of the host that would load the plugin")
	return cmd
}

func (f *inspectFlags) inspect(cmd *cobra.Command, file string) error {
	if !slices.Contains(inspect.Formats(), f.output) {
		return command.Misuse(cmd, fmt.Errorf("-o %q is none of %s", f.output, strings.Join(inspect.Formats(), ", ")))
	}
	options, err := f.options()
	if err != nil {
		return command.Misuse(cmd, err)
	}
	if f.kubeconfig != "" {
		if options.Cluster, err = kubeconfig.Load(f.kubeconfig); err != nil {
			return err
		}
	}
	report, err := inspect.File(cmd.Context(), file, options)
	if err != nil {
		return err
	}
	if err := report.Print(cmd.OutOrStdout(), f.output); err != nil || report.Load.OK {
		return err
	}
	return fmt.Errorf("%s would be refused at step %s, see the report", file, report.Load.Step)
}

func (f *inspectFlags) options() (o inspect.Options, err error) {
	o.Compiler = command.Compiler
	all := standard.Capabilities()
	o.Capabilities, o.Rows, o.Rules, o.Notes = all.Modules(), all.Rows(), all.Rules, all.Notes
	o.Host, err = command.HostConfig(f.configFile, func(c *config.Config) { c.Plugins = command.NoDirectory })
	if o.ReadPolicy = o.Host.WithDefaults().ReadUnbounded; f.configFile != "" {
		o.ReadPolicy = o.Host.WithDefaults().ReadPolicy
	}
	return o, err
}
