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
encoding/json. Types that are declared in other packages of the module get theirs
there. The paths of the written files are printed to standard output. A file that
does not fit the fields of its types any more does not compile; --check finds
what else has changed, such as a method MarshalJSON that was added.

A type without a codec, such as a map[string]any, is left to encoding/json, which the
plugin then contains. Each such place is printed to standard error, with the reason.

The comment //thole:generate on a type adds it. //thole:compact on a struct gives it a
codec that is small, and slower to read. If no codec can be generated for such a type,
it is an error, and nothing is written.

With --check nothing is written, and the exit code is 1 if a file is stale.`,
		RunE: func(cmd *cobra.Command, packages []string) error {
			if len(packages) == 0 {
				packages = []string{"."}
			}
			result, err := generate.Packages(cmd.Context(), generate.Place{Dir: "."}, packages...)
			if err != nil {
				return err
			}
			for _, note := range result.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), note)
			}
			return generate.Update(result.Files, check, func(path string) { fmt.Fprintln(cmd.OutOrStdout(), path) })
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing, and fail if a file is stale")
	cmd.AddCommand(generateCRDCommand())
	return cmd
}
