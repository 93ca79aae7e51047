package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version/verflag"
)

// Exit codes, the same for every program of this repository.
const (
	exitFailed = 1
	exitUsage  = 2
)

// errUsage marks what the caller can only repair by another command line.
var errUsage = errors.New("wrong use")

// The kernel kills a role when the thread that started it ends
// (PR_SET_PDEATHSIG). Roles are started by the main goroutine, which stays on
// the main thread, which ends with the process.
func init() { runtime.LockOSThread() }

func main() {
	err := command().Execute()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "thole-devcluster:", err)
	if errors.Is(err, errUsage) {
		fmt.Fprintln(os.Stderr, "Run 'thole-devcluster --help' for usage.")
		os.Exit(exitUsage)
	}
	os.Exit(exitFailed)
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:           "thole-devcluster --dir D [--port P] [--kubeconfig-out F]",
		Short:         "Run a Kubernetes control plane on loopback, for demos and tests",
		Args:          func(_ *cobra.Command, args []string) error { return noArguments(args) },
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			if err := o.validate(); err != nil {
				return fmt.Errorf("%w: %w", errUsage, err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends everything at once
			if o.stopWithStdin {
				ctx = untilClosed(ctx, os.Stdin)
			}
			return run(ctx, o, cmd.OutOrStdout())
		},
	}
	cmd.SetContext(context.Background())
	cmd.SetOut(os.Stdout)
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w: %w", errUsage, err)
	})
	flags := cmd.Flags()
	flags.StringVar(&o.dir, "dir", "", "directory that holds the cluster; made when missing (required)")
	flags.IntVar(&o.port, "port", 0, "port of the API server on 127.0.0.1; 0 takes a free one")
	flags.StringVar(&o.kubeconfigOut, "kubeconfig-out", "", "where to write the administrator's kubeconfig (default: kubeconfig in --dir)")
	flags.BoolVar(&o.stopWithStdin, "stop-with-stdin", false, "stop when standard input is closed, for programs that start a cluster as their child")
	cmd.AddCommand(roleCommand())
	return cmd
}

func noArguments(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%w: unexpected argument %q", errUsage, args[0])
	}
	return nil
}

// untilClosed returns a context that ends when r does.
func untilClosed(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, r)
	}()
	return ctx
}
