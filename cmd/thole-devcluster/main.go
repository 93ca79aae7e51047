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
	"github.com/spf13/pflag"
	"k8s.io/component-base/version/verflag"

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/supervise"
)

// Exit codes, the same for every program of this repository.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is an error that only another command line can avoid.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// The kernel kills a component when the thread that started it ends
// (PR_SET_PDEATHSIG). Components are started by the main goroutine, which this
// keeps on the main thread, and that thread ends with the process.
func init() { runtime.LockOSThread() }

func main() {
	err := command().Execute()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "thole-devcluster:", err)
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintln(os.Stderr, "Run 'thole-devcluster --help' for usage.")
		os.Exit(exitUsage)
	}
	os.Exit(exitFailed)
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:           "thole-devcluster --dir D [--port P] [--kubeconfig-out F] [--audit-log F] [--without-controllers NAME,...]",
		Short:         "Run a Kubernetes control plane on loopback, for demos and tests",
		Args:          noArguments,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			if o.dir == "" {
				return usageError{errors.New("--dir is required: name a directory that is empty, new, or holds a cluster")}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends the process at once
			if o.stopWithStdin {
				ctx = untilClosed(ctx, os.Stdin)
			}
			return run(ctx, o, cmd.OutOrStdout())
		},
	}
	cmd.SetContext(context.Background())
	cmd.SetOut(os.Stdout)
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(flagError)
	flags := cmd.Flags()
	flags.StringVar(&o.dir, "dir", "", "directory of the cluster; created if it does not exist (required)")
	flags.Uint16Var(&o.port, "port", 0, "port of the API server on 127.0.0.1; 0 takes a free one")
	flags.StringVar(&o.kubeconfigOut, "kubeconfig-out", "",
		"file for the administrator's kubeconfig (default: kubeconfig in --dir)")
	flags.StringVar(&o.auditLog, "audit-log", "",
		"file for the API server's audit log: writes by users and service accounts, with what they have stored")
	flags.BoolVar(&o.stopWithStdin, "stop-with-stdin", false,
		"stop when standard input is closed, for programs that start a cluster as their child")
	flags.StringSliceVar(&o.withoutControllers, "without-controllers", nil,
		"controllers of Kubernetes that do not run, so that a plugin can do their work, such as replicaset-controller")
	cmd.AddCommand(componentCommand())
	return cmd
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q: thole-devcluster takes flags only", args[0])}
	}
	return nil
}

// flagError replaces the errors of Go's parsers by what the flag takes.
func flagError(_ *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		want := "true or false"
		if invalid.GetFlag().Name == "port" {
			want = "a number from 0 to 65535"
		}
		err = fmt.Errorf("invalid value %q for --%s: want %s", invalid.GetValue(), invalid.GetFlag().Name, want)
	}
	return usageError{err}
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

// The components of the control plane. Each runs in a process of its own, whose
// working directory is that of the cluster, until it is asked to stop or fails.
const (
	componentEtcd              = "etcd"
	componentAPIServer         = "kube-apiserver"
	componentControllerManager = "kube-controller-manager"
)

var components = map[string]func(self *supervise.Component, flags []string) error{
	componentEtcd:              runEtcd,
	componentAPIServer:         runAPIServer,
	componentControllerManager: runControllerManager,
}

// Indices of the files that a component inherits; only the API server has a
// listener. The first keeps the directory locked while the component lives.
const (
	fileLock = iota
	fileListener
)

// componentCommand is the command by which the parent starts its components.
func componentCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "component NAME [-- FLAG ...]",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			runComponent, ok := components[args[0]]
			if !ok {
				return usageError{fmt.Errorf("unknown component %q", args[0])}
			}
			self, err := supervise.Attach()
			if err != nil {
				return usageError{err}
			}
			return runComponent(self, args[1:])
		},
	}
}
