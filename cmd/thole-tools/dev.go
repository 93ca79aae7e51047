package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/cmd/thole-tools/internal/devloop"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/with/standard"
)

// devFlags are the flags of thole dev.
type devFlags struct {
	devloop.Config
	configFile, listen, namespace, logFile string
}

func devCommand() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev [DIR]",
		Short: "Build a plugin from its source and run it, again after every save",
		Long: `Build a plugin from its source and run it, again after every save.

DIR, by default the working directory, holds the main package of a plugin. It
and what it is built from are watched: packages of its own module, of a
workspace and of replaced modules, embedded files, go.mod and go.sum. After a
save the plugin is built by TinyGo, or with --go by standard Go, and reloaded;
a build that fails leaves the last good one running. What happens is shown as it
happens: builds, errors, reloads and how long they took, reconciles, changes of
objects and Events on them, and what the plugin logs.

The plugin runs on a control plane that is started for it, thole-devcluster,
or on the cluster of --kubeconfig, with the rights of that file. A policy.yaml
in DIR is the policy of the plugin; if it has no allow, the plugin is allowed
what its manifest asks for, and the policy that says so is shown. crd.yaml in
DIR is applied to the control plane at the start, sample.yaml when the plugin is
built and its webhooks, if it has some, answer; both again after a save, and to
another cluster only with --apply. A crd.yaml that was written by thole generate
crd is updated with each build.

Ctrl-C ends all of it, and nothing but the directory of --data is left behind.
With --once the command ends by itself when the objects of sample.yaml are
Ready; if they are not in time, it prints why and its exit code is 1.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Misuse(cmd, fmt.Errorf("unexpected argument %q: name one directory: thole dev [DIR]", args[1]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Dir = "."
			if len(args) > 0 {
				f.Dir = args[0]
			}
			return f.dev(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Name, "name", "", "name of the plugin; default: the name in its manifest")
	flags.BoolVar(&f.Go, "go", false, "build by standard Go")
	flags.StringVar(&f.TinyGo, "tinygo", "", "the TinyGo to build with; default: that of PATH, or of make tools")
	flags.StringVar(&f.Devcluster, "devcluster", "", "the control plane's program; default: beside thole, or in PATH")
	flags.StringVar(&f.Data, "data", "", "directory in which the control plane keeps its data; default: a temporary one")
	flags.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to use instead of a control plane of its own")
	flags.BoolVar(&f.Apply, "apply", false, "apply crd.yaml and sample.yaml to the cluster of --kubeconfig")
	flags.StringVar(&f.configFile, "config", "", "file with the host's configuration")
	flags.StringVar(&f.listen, "listen", "", "address of metrics and plugin states (default: a free port of 127.0.0.1)")
	flags.StringVar(&f.namespace, "namespace", "", "the one namespace to work in; default: all")
	flags.StringVar(&f.logFile, "log-file", "", "file for the host's whole log")
	flags.BoolVar(&f.Once, "once", false, "end when the objects of sample.yaml are Ready")
	flags.DurationVar(&f.Timeout, "timeout", time.Minute, "with --once: how long they may take, once the plugin is built")
	return cmd
}

func (f *devFlags) dev(cmd *cobra.Command) error {
	if err := f.complete(cmd); err != nil {
		return command.Misuse(cmd, err)
	}
	if f.logFile != "" {
		log, err := os.Create(f.logFile)
		if err != nil {
			return err
		}
		defer log.Close()
		f.Log = log
	}
	ctx, hurry, release := command.Interruptible(cmd.Context())
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.Hurry = hurry
	f.setOutput(cmd.OutOrStdout(), cancel)
	return devloop.Run(ctx, f.Config)
}

// complete checks the flags that do not fit each other, and reads the host's
// configuration.
func (f *devFlags) complete(cmd *cobra.Command) (err error) {
	switch {
	case f.Go && f.TinyGo != "":
		return errors.New("--go and --tinygo are two compilers: leave one of them out")
	case f.Kubeconfig != "" && f.Data != "":
		return errors.New("--data is for the control plane that --kubeconfig replaces: leave one of them out")
	case f.Kubeconfig != "" && f.Devcluster != "":
		return errors.New("--devcluster is for the control plane that --kubeconfig replaces: leave one of them out")
	case f.Kubeconfig == "" && f.Apply:
		return errors.New("--apply is for the cluster of --kubeconfig: to a control plane of its own all is applied")
	case f.Kubeconfig != "" && f.Once && !f.Apply:
		return errors.New("--once waits for the objects of sample.yaml, which --apply applies: add it")
	case f.Timeout <= 0:
		return fmt.Errorf("--timeout: %s is not positive", f.Timeout)
	}
	f.Host, err = command.HostConfig(f.configFile, func(c *config.Config) {
		c.Plugins = command.NoDirectory // the session makes its own
		command.Override(cmd, "listen", &c.Listen, f.listen)
		command.Override(cmd, "namespace", &c.Namespace, f.namespace)
	})
	f.Version, f.Compiler, f.Capabilities = command.Version, command.Compiler, standard.Capabilities()
	return err
}

// setOutput makes the session write to out, in colour if that is a terminal that
// supports it. A session whose terminal or pipe is closed ends.
func (f *devFlags) setOutput(out io.Writer, end func()) {
	f.Output = out
	file, ok := out.(*os.File)
	if !ok {
		return
	}
	info, err := file.Stat()
	f.Colour = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if file == os.Stdout {
		command.WhenClosed(file, end)
	}
}
