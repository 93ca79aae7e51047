// Package command is shared by the programs thole and thole-tools: how a command line runs, ends and reports its errors.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/thole-dev/thole/host/sanitize"
)

// Version is the version of the programs. It is set when a release is built:
// -ldflags "-X github.com/thole-dev/thole/cmd/internal/command.Version=v1.2.3".
var Version = "dev"

// Main runs the command line of this process and returns its exit code.
func Main(root func() *cobra.Command) int {
	becomeCompiler()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return Execute(ctx, root(), os.Args[1:], os.Stdout, os.Stderr)
}

// Execute runs a command line and returns its exit code: 0 done, 1 failed, 2 wrong use.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
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
		fmt.Fprintf(stderr, "thole: %s\n", ErrorText(err))
		return 1
	}
}

// Logged marks an error that the log has: it is not printed again.
func Logged(err error) error { return loggedError{err} }

type loggedError struct{ error }

func (e loggedError) Unwrap() error { return e.error }

// ErrorText returns an error for people, with what to do about it.
func ErrorText(err error) string {
	text := sanitize.Lines(err.Error()) // it may quote objects and servers
	if apierrors.IsUnauthorized(err) {
		text += "; renew the credentials in the kubeconfig, or the token of the service account"
	}
	return text
}

// Root returns the command thole with its commands.
func Root(short string, commands ...*cobra.Command) *cobra.Command {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name())
	}
	root := &cobra.Command{
		Use:               "thole",
		Short:             short,
		Version:           Version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Misuse(cmd, unknownCommand(cmd, args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Misuse(cmd, errors.New("a command is required: "+strings.Join(names, ", ")))
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return Misuse(cmd, flagError(cmd, err)) })
	root.AddCommand(append(commands, compileCommand())...)
	return root
}
