package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/cmd/thole/internal/pluginlist"
)

func pluginsCommand() *cobra.Command {
	var server pluginlist.Server
	var output string
	cmd := &cobra.Command{
		Use:   "plugins [NAME...]",
		Short: "List the plugins of a running host",
		Long: `List the plugins of a running host: which revision of each is running, its
state, how often it was loaded and rolled back, and the last error.

--address is that of the host's --listen. A host that others reach serves TLS and
asks for a token: in its pod, thole plugins sends that of the pod. The table is shortened, -o wide
leaves nothing out, and -o json prints the reply of the host.

The exit code is 1 if the host is not reached, or has no plugin of a NAME.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if !slices.Contains(pluginlist.Formats(), output) {
				return command.Misuse(cmd, fmt.Errorf("-o %q is none of %s", output, strings.Join(pluginlist.Formats(), ", ")))
			}
			if err := server.Validate(); err != nil {
				return command.Misuse(cmd, err)
			}
			list, err := server.Get(cmd.Context())
			if _, refused := errors.AsType[*pluginlist.RefusedError](err); refused {
				return err
			}
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
	flags.StringVar(&server.Address, "address", "127.0.0.1:8080", "where the host listens")
	flags.StringVar(&server.TokenFile, "token-file", "", "file with a token that may get /plugins, for a host that serves TLS; default on a loopback address: that of the pod")
	flags.StringVar(&server.AuthorityFile, "certificate-authority", "", "file with the certificate that has signed that of the host; default: those of the system, and any on a loopback address")
	flags.StringVarP(&output, "output", "o", "table", strings.Join(pluginlist.Formats(), ", "))
	return cmd
}
