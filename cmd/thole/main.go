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
)

// version is set when a release is built: -ldflags "-X main.version=v1.2.3".
var version = "dev"

func main() { os.Exit(Main()) }

// Main runs the command line of this process and returns its exit code.
func Main() int {
	becomeCompiler()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var misuse *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &misuse):
		fmt.Fprintf(stderr, "thole: %v\nRun '%s --help' for usage.\n", err, misuse.command)
		return 2
	default:
		fmt.Fprintf(stderr, "thole: %v\n", err)
		return 1
	}
}

// usageError is an error of whoever typed the command.
type usageError struct {
	command string
	error
}

func (e *usageError) Unwrap() error { return e.error }

func misuse(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return &usageError{cmd.CommandPath(), err}
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
				return misuse(cmd, fmt.Errorf("unknown command %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return misuse(cmd, errors.New("a command is required: run, dev, plugins, finalizers, inspect or generate"))
		},
	}
	root.SetFlagErrorFunc(misuse)
	root.AddCommand(runCommand(), devCommand(), pluginsCommand(), inspectCommand(), generateCommand(), finalizersCommand(), compileCommand())
	return root
}

// noArgs refuses arguments as wrong use.
func noArgs(cmd *cobra.Command, args []string) error { return misuse(cmd, cobra.NoArgs(cmd, args)) }
