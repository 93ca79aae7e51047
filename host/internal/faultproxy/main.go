// Thole-faultproxy is a reverse proxy in front of an API server that injects faults
// into requests and records them, for tests of controllers.
// The README of host/internal/scenario has the faults and how to ask for them.
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

// Exit codes, the same for every program of this repository.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is an error that only another command line can avoid.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(stdout)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "faultproxy:", err)
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintln(stderr, "Run 'faultproxy --help' for usage.")
		return exitUsage
	}
	return exitFailed
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "faultproxy --kubeconfig F --kubeconfig-out G",
		Short: "Inject faults between a client and an API server, for tests of controllers",
		Long: `Inject faults between a client and an API server, for tests of controllers.

It writes a kubeconfig by which clients use the proxy, prints "ready URL" when it
serves, and stops on SIGTERM. Requests without a token get the credentials of
--kubeconfig. The URL is that of the control interface:

  PUT /rules         replaces all rules, one per line; POST adds rules
  GET /rules         how often each rule was applied
  PUT /process       the process id of the client, for the faults kill and stop
  GET /requests      every request so far; DELETE forgets them

host/internal/scenario/README.md describes the rules.`,
		Args:          noArguments,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return usageError{err}
			}
			ctx := cmd.Context()
			if o.stopWithStdin {
				ctx = untilClosed(ctx, cmd.InOrStdin())
			}
			return run(ctx, o, cmd.OutOrStdout())
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	o.addFlags(cmd.Flags())
	return cmd
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q: faultproxy takes flags only", args[0])}
	}
	return nil
}

// untilClosed returns a context that is cancelled at the end of r.
func untilClosed(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, r)
	}()
	return ctx
}
