package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
)

func configCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "config [PLUGIN]",
		Short: "Print the configuration, or the policy of a plugin, that is in force",
		Long: `Print what is in force with the same flags of thole run: the configuration, or the
policy of a plugin, with every default filled in and under the ceiling of the
configuration. What is not printed is off or empty, and guestMemoryMiB measured when
the host starts.

The output is YAML that --config, or the plugin directory, takes.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Misuse(cmd, errors.New("name one plugin, or none for the configuration: thole config [PLUGIN]"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return f.printPolicy(cmd, args[0])
			}
			return f.printConfig(cmd)
		},
	}
	f.addConfig(cmd)
	return cmd
}

func (f *runFlags) printConfig(cmd *cobra.Command) error {
	c, err := f.configWith(cmd, command.NoDirectory)
	if err != nil {
		return command.Misuse(cmd, err)
	}
	if c = c.WithDefaults(); c.Plugins == command.NoDirectory {
		c.Plugins = ""
	}
	return printYAML(cmd, c)
}

func (f *runFlags) printPolicy(cmd *cobra.Command, plugin string) error {
	if !abi.ValidName(plugin) {
		return command.Misuse(cmd, fmt.Errorf("%q cannot be the name of a plugin: write the name of its file without .wasm", plugin))
	}
	c, err := f.config(cmd)
	if err != nil {
		return command.Misuse(cmd, err)
	}
	text, err := os.ReadFile(filepath.Join(c.Plugins, plugin+".yaml"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the policy: %w", err)
	}
	policy, err := c.WithDefaults().ReadPolicy(plugin, text)
	if err != nil {
		return err
	}
	policy.APIVersion = rights.APIVersion
	return printYAML(cmd, policy)
}

func printYAML(cmd *cobra.Command, value any) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

// sectionFlags returns the flags of the fields of capabilities, which set those of c.
func sectionFlags(c *config.Config) *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, f := range c.Flags() {
		switch field := f.Field.(type) {
		case *string:
			flags.StringVar(field, f.Name, *field, f.Usage)
		case *bool:
			flags.BoolVar(field, f.Name, *field, f.Usage)
		case *config.Duration:
			flags.DurationVar(&field.Duration, f.Name, field.Duration, f.Usage)
		}
	}
	return flags
}

// overrideSections is override for the fields of capabilities.
func overrideSections(cmd *cobra.Command, c *config.Config) {
	sectionFlags(c).VisitAll(func(f *pflag.Flag) {
		if given := cmd.Flags().Lookup(f.Name); given.Changed {
			_ = f.Value.Set(given.Value.String()) // which was read from such a text
		}
	})
}
