// Thole hosts Kubernetes controllers that are WebAssembly modules.
//
// Exit codes: 0 done, 1 failed, 2 wrong use. Errors go to standard error.
package main

import (
	"os"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // root certificates, where the system has none, as in the image

	"github.com/thole-dev/thole/cmd/internal/command"
)

func main() { os.Exit(command.Main(rootCommand)) }

func rootCommand() *cobra.Command {
	own := []*cobra.Command{runCommand(), pluginsCommand(), configCommand(), finalizersCommand()}
	return command.Root("Host Kubernetes controllers that are WebAssembly modules", append(own, toolCommands()...)...)
}
