// Thole-tools has the commands of thole that are for a workstation: to write plugins, and to look at them before they are
// deployed. Thole starts it: thole dev runs thole-tools dev.
//
// Exit codes: 0 done, 1 failed, 2 wrong use. Errors go to standard error.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/cmd/internal/command"
)

func main() { os.Exit(command.Main(rootCommand)) }

func rootCommand() *cobra.Command {
	return command.Root("Write Kubernetes controllers that are WebAssembly modules",
		devCommand(), buildCommand(), generateCommand(), inspectCommand(), rbacCommand())
}
