// Thole-author has the commands of thole for those who write plugins. It is called by thole: thole dev runs
// thole-author dev.
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
	return command.Root("Write Kubernetes controllers that are WebAssembly modules", "dev, build or generate",
		devCommand(), buildCommand(), generateCommand())
}
