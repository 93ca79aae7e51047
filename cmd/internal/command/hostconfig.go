package command

import (
	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/with/standard"
)

// HostConfig reads the file of --config, if there is one, and sets what was
// given by flags over it. The configuration is valid once its defaults are
// filled in, which is left to its user: thole dev has some of its own.
func HostConfig(file string, setFlags func(*config.Config)) (c config.Config, err error) {
	c.Sections = standard.Capabilities().Sections()
	if file != "" {
		if c, err = config.Read(file, c.Sections...); err != nil {
			return c, err
		}
	}
	setFlags(&c)
	return c, c.WithDefaults().Validate()
}

// Override sets a field to the value of a flag if the flag was given.
func Override[T any](cmd *cobra.Command, flag string, field *T, value T) {
	if cmd.Flags().Changed(flag) {
		*field = value
	}
}

// NoDirectory stands for the plugins' directory in the configuration of a
// command that does not read it from there.
const NoDirectory = "-"
