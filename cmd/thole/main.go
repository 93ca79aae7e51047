// Thole hosts Kubernetes controllers that are WebAssembly modules.
//
// Exit codes: 0 done, 1 failed, 2 wrong use. Errors go to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // root certificates, where the system has none, as in the image
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/thole-dev/thole/host/sanitize"
)

// version is set when a release is built: -ldflags "-X main.version=v1.2.3".
var version = "dev"

func main() { os.Exit(Main()) }

// Main runs the command line of this process and returns its exit code.
func Main() int {
	becomeCompiler()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var misuse *usageError
	var logged loggedError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &logged):
		return 1
	case errors.As(err, &misuse):
		fmt.Fprintf(stderr, "thole: %s\nRun '%s --help' for usage.\n", sanitize.Lines(err.Error()), misuse.command)
		return 2
	default:
		fmt.Fprintf(stderr, "thole: %s\n", errorText(err))
		return 1
	}
}

// errorText returns an error for people, with what to do about it.
func errorText(err error) string {
	return sanitize.Lines(err.Error()) + advice(err) // it may quote objects and servers
}

// advice returns what to do about an error whose text does not state it.
func advice(err error) string {
	if apierrors.IsUnauthorized(err) {
		return "; renew the credentials in the kubeconfig, or the token of the service account"
	}
	return ""
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:               "thole",
		Short:             "Host Kubernetes controllers that are WebAssembly modules",
		Version:           version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		// Without a command: say which there are, as an error.
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misuse(cmd, unknownCommand(cmd, args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return misuse(cmd, errors.New("a command is required: run, dev, plugins, config, finalizers, inspect, rbac or generate"))
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misuse(cmd, flagError(cmd, err)) })
	root.AddCommand(runCommand(), devCommand(), buildCommand(), pluginsCommand(), configCommand(), inspectCommand(), rbacCommand(), generateCommand(), finalizersCommand(), compileCommand())
	return root
}
