package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/cmd/internal/devloop"
	"github.com/thole-dev/thole/cmd/internal/ending"
	"github.com/thole-dev/thole/host"
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
save the plugin is built by TinyGo and reloaded; a build that fails leaves the
last good one running. What happens is shown as it happens: builds, errors,
reloads and what they took, reconciles, and what the plugin logs.

The plugin runs on a control plane that is started for it, thole-devcluster,
or on the cluster of --kubeconfig, with the rights of that file. A policy.yaml
in DIR is the plugin's policy. crd.yaml and sample.yaml in DIR are applied to
the control plane, at the start and after a save; to another cluster only with
--apply.

Ctrl-C ends all of it, and nothing but the directory of --data is left.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return misuse(cmd, fmt.Errorf("unexpected argument %q: name one directory: thole dev [DIR]", args[1]))
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
	flags.StringVar(&f.Name, "name", "", "name of the plugin; default: as the plugin says")
	flags.StringVar(&f.TinyGo, "tinygo", "", "the TinyGo to build with; default: that of PATH, or of make tools")
	flags.StringVar(&f.Devcluster, "devcluster", "", "the control plane's program; default: beside thole, or in PATH")
	flags.StringVar(&f.Data, "data", "", "directory in which the control plane keeps its data; default: a temporary one")
	flags.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to use instead of a control plane of its own")
	flags.BoolVar(&f.Apply, "apply", false, "apply crd.yaml and sample.yaml to the cluster of --kubeconfig")
	flags.StringVar(&f.configFile, "config", "", "file with the host's configuration")
	flags.StringVar(&f.listen, "listen", "", "address of metrics and plugin states (default: a free port of 127.0.0.1)")
	flags.StringVar(&f.namespace, "namespace", "", "the one namespace to work in; default: all")
	flags.StringVar(&f.logFile, "log-file", "", "file for the host's whole log")
	return cmd
}

func (f *devFlags) dev(cmd *cobra.Command) error {
	if err := f.complete(cmd); err != nil {
		return misuse(cmd, err)
	}
	if f.logFile != "" {
		log, err := os.Create(f.logFile)
		if err != nil {
			return err
		}
		defer log.Close()
		f.Log = log
	}
	end := ending.Catch()
	defer end.Release()
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	defer context.AfterFunc(end.Asked, cancel)()
	f.Hurry = end.Hurry
	f.show(cmd.OutOrStdout(), end)
	return devloop.Run(ctx, f.Config)
}

// complete checks the flags that do not fit each other, and reads the host's
// configuration.
func (f *devFlags) complete(cmd *cobra.Command) (err error) {
	switch {
	case f.Kubeconfig != "" && f.Data != "":
		return errors.New("--data is for the control plane that --kubeconfig replaces: leave one of them out")
	case f.Kubeconfig != "" && f.Devcluster != "":
		return errors.New("--devcluster is for the control plane that --kubeconfig replaces: leave one of them out")
	case f.Kubeconfig == "" && f.Apply:
		return errors.New("--apply is for the cluster of --kubeconfig: to a control plane of its own all is applied")
	}
	f.Host, err = hostConfig(f.configFile, func(c *host.Config) {
		c.Plugins = noDirectory // the session makes one
		override(cmd, "listen", &c.Listen, f.listen)
		override(cmd, "namespace", &c.Namespace, f.namespace)
	})
	f.Version, f.Compiler = version, compiler
	return err
}

// show lets the session write to out, in colour if that is a terminal that
// wants it. A terminal or a pipe that goes away ends the session.
func (f *devFlags) show(out io.Writer, end *ending.Ending) {
	f.Output = out
	file, ok := out.(*os.File)
	if !ok {
		return
	}
	info, err := file.Stat()
	f.Colour = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if file != os.Stdout {
		return
	}
	ending.WhenUnread(file, end.Ask)
}
