package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/cmd/thole/internal/pluginlist"
)

func pluginsCommand() *cobra.Command {
	var address, output string
	cmd := &cobra.Command{
		Use:   "plugins [NAME...]",
		Short: "List the plugins of a running host",
		Long: `List the plugins of a running host: which revision of each is running, its
state, how often it was loaded and rolled back, and the last error.

--address is that of the host's --listen. The table is shortened, -o wide
leaves nothing out, and -o json prints the reply of the host.

The exit code is 1 if the host is not reached, or has no plugin of a NAME.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if !slices.Contains(pluginlist.Formats(), output) {
				return misuse(cmd, fmt.Errorf("-o %q is none of %s", output, strings.Join(pluginlist.Formats(), ", ")))
			}
			if err := pluginlist.ValidateAddress(address); err != nil {
				return misuse(cmd, err)
			}
			list, err := pluginlist.Get(cmd.Context(), address)
			if err != nil {
				return fmt.Errorf("%w; check that a host is running there, and that --address is that of its --listen", err)
			}
			if list, err = list.Select(names); err != nil {
				return err
			}
			return list.Print(cmd.OutOrStdout(), output)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&address, "address", "http://127.0.0.1:8080", "where the host listens")
	flags.StringVarP(&output, "output", "o", "table", strings.Join(pluginlist.Formats(), ", "))
	return cmd
}
