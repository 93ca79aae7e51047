package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/cmd/thole-tools/internal/crdgen"
	"github.com/thole-dev/thole/sdk/generate"
)

// crdFlags are the flags of `thole generate crd`.
type crdFlags struct {
	check  bool
	output string
}

func generateCRDCommand() *cobra.Command {
	var f crdFlags
	cmd := &cobra.Command{
		Use:   "crd [DIR]",
		Short: "Generate the CustomResourceDefinitions of a plugin",
		Long: `Generate the CustomResourceDefinitions of a plugin.

For each custom kind that the plugin in DIR, by default the working directory, has a
controller for, this writes a CustomResourceDefinition to DIR/` + crdgen.FileName + `. The
path of the file is printed to standard output if it has changed.

The schema is that of the types of the spec and the status, and of the versions that
the plugin converts, with the markers of controller-tools in their comments, such as
+kubebuilder:validation:Minimum=1, +kubebuilder:default=3 and +optional. Markers for the
whole kind, such as +kubebuilder:printcolumn and +kubebuilder:resource, stand on the type
with the name of the kind, or on that of the spec. The subresource
status, the members of the status that the host writes, and a column Ready are added. The
default of the status has observedGeneration: -1, unless it has another or its rules forbid it.

A type that has no schema, a marker that has no effect, and what the API server would
refuse, is an error with its place, and nothing is written.

With --check nothing is written, and the exit code is 1 if the file is stale.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Misuse(cmd, fmt.Errorf("unexpected argument %q: name one directory: thole generate crd [DIR]", args[1]))
			}
			if f.check && f.output == "-" {
				return command.Misuse(cmd, errors.New("--check compares with a file: leave out --output, or name the file"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.generate(cmd, cmp.Or(append(args, ".")...))
		},
	}
	cmd.Flags().BoolVar(&f.check, "check", false, "write nothing, and fail if the file is stale")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "the `FILE` to write, - for standard output (default DIR/"+crdgen.FileName+")")
	return cmd
}

func (f *crdFlags) generate(cmd *cobra.Command, dir string) error {
	content, err := crdgen.Generate(cmd.Context(), generate.Place{Dir: dir})
	if err != nil {
		return err
	}
	if f.output == "-" {
		_, err := cmd.OutOrStdout().Write(content)
		return err
	}
	path, err := filepath.Abs(cmp.Or(f.output, filepath.Join(dir, crdgen.FileName)))
	if err != nil {
		return err
	}
	file := generate.File{Path: path, Content: content, By: "thole generate crd"}
	return generate.Update([]generate.File{file}, f.check, func(path string) { fmt.Fprintln(cmd.OutOrStdout(), path) })
}
