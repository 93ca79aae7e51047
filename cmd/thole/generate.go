package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/sdk/generate"
)

func generateCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "generate [PACKAGE...]",
		Short: "Generate JSON codecs for the types of a plugin",
		Long: `Generate JSON codecs for the types of a plugin.

Into each package, by default that of the working directory, one file is
written, ` + generate.FileName + `: methods that read and write the types which the
plugin gives to the SDK, without reflection. The SDK uses them in place of
encoding/json. The names of written files are printed.

A type that has no codec is named with its place, and nothing is written. The
line //thole:generate above a type adds it, //thole:leave leaves it out.

With --check nothing is written, and the exit code is 1 if a file is stale.`,
		RunE: func(cmd *cobra.Command, packages []string) error {
			if len(packages) == 0 {
				packages = []string{"."}
			}
			files, err := generate.Packages(cmd.Context(), generate.Place{Dir: "."}, packages...)
			if err != nil && strings.Contains(err.Error(), "is not in std") {
				return fmt.Errorf("%w: write a directory as ./NAME", err)
			}
			if err != nil {
				return err
			}
			return generate.Update(files, check, func(path string) { fmt.Fprintln(cmd.OutOrStdout(), path) })
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing, and fail if a file is stale")
	return cmd
}
