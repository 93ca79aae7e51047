package command

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/host/sandbox"
)

// compileName is the command by which the host runs itself to compile a
// module. It is not for people, and its arguments may change.
const compileName = "compile-module"

// Compiler is this program as a compiler; nil in tests that call [Execute].
var Compiler []string

// becomeCompiler lets this program be run as a compiler.
func becomeCompiler() {
	if self, err := os.Executable(); err == nil {
		Compiler = []string{self, compileName}
	}
}

func compileCommand() *cobra.Command {
	return &cobra.Command{
		Use:                compileName,
		Hidden:             true,
		DisableFlagParsing: true,
		Run: func(cmd *cobra.Command, args []string) {
			os.Exit(sandbox.Compiler(cmd.Context(), args, sandbox.Streams{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}))
		},
	}
}
