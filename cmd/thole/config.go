package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/host/config"
)

// hostConfig is the configuration in a file, "" for none, with what flags say
// over it. It is checked with its defaults, which it is returned without.
func hostConfig(file string, flags func(*config.Config)) (c config.Config, err error) {
	if file != "" {
		if c, err = readConfig(file); err != nil {
			return c, err
		}
	}
	flags(&c)
	return c, c.WithDefaults().Validate()
}

// readConfig reads a file that need not say where the plugins are.
func readConfig(file string) (config.Config, error) {
	c, err := config.Read(file)
	if err != nil {
		return c, err
	}
	whole := c.WithDefaults()
	whole.Plugins = cmp.Or(c.Plugins, noDirectory)
	if err := whole.Validate(); err != nil {
		return c, fmt.Errorf("read configuration %s: %w", file, err)
	}
	return c, nil
}

// override sets a field to the value of a flag that was given.
func override[T any](cmd *cobra.Command, flag string, field *T, value T) {
	if cmd.Flags().Changed(flag) {
		*field = value
	}
}

// noDirectory stands for the plugins' directory in the configuration of a
// command that looks at none.
const noDirectory = "-"
