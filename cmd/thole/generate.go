package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/sdk/generate"
)

func generateCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "generate [PACKAGE...]",
		Short: "Generate JSON codecs for the types of a plugin",
		Long: `Generate JSON codecs for the types of a plugin.

In each package, by default that of the working directory, this writes one file,
` + generate.FileName + `: methods that read and write the types which the plugin
passes to the SDK, without reflection. The SDK uses them in place of
encoding/json. The paths of the written files are printed to standard output.

A type for which no codec can be generated is an error with its place, and
nothing is written. So is a call that passes a value without a codec to the SDK,
such as a map[string]any, in a plugin that uses sdk.RegisterGenerated. The comment
//thole:generate on a type adds it, //thole:leave leaves it out. //thole:compact on a
struct gives it a codec that is small, and slower to read.

With --check nothing is written, and the exit code is 1 if a file is stale.`,
		RunE: func(cmd *cobra.Command, packages []string) error {
			if len(packages) == 0 {
				packages = []string{"."}
			}
			files, err := generate.Packages(cmd.Context(), generate.Place{Dir: "."}, packages...)
			if err != nil {
				return err
			}
			return generate.Update(files, check, func(path string) { fmt.Fprintln(cmd.OutOrStdout(), path) })
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing, and fail if a file is stale")
	cmd.AddCommand(generateCRDCommand())
	return cmd
}
