package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/internal/toolchain"
	"github.com/thole-dev/thole/internal/toolchain/traps"
)

// buildFlags are the flags of thole build.
type buildFlags struct {
	out, tinygo string
	standard    bool
}

func buildCommand() *cobra.Command {
	var f buildFlags
	cmd := &cobra.Command{
		Use:   "build -o FILE DIR",
		Short: "Compile a plugin",
		Long: `Compile the plugin in DIR, its main package, into FILE. A file that is there is
replaced by the whole new one, so that it may be in the directory of a host that runs.

It is compiled by TinyGo, or with --go by standard Go. The TinyGo is that of --tinygo,
or of PATH if that is new enough, or the one that make tools has built in a directory
above.

Each TinyGo is tried once with code that some compilers get wrong. If it gets wrong what
the plugin contains, nothing is built: the places are printed, and what to write instead.`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 1:
				return command.Misuse(cmd, errors.New("name the one directory of a plugin's main package: thole build -o FILE DIR"))
			case f.out == "":
				return command.Misuse(cmd, errors.New("-o names the file to write"))
			case f.standard && f.tinygo != "":
				return command.Misuse(cmd, errors.New("--go and --tinygo are two compilers: leave one of them out"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.build(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "output", "o", "", "the file to write")
	flags.BoolVar(&f.standard, "go", false, "compile by standard Go")
	flags.StringVar(&f.tinygo, "tinygo", "", "the TinyGo to build with; default: that of PATH, or of make tools")
	return cmd
}

func (f *buildFlags) build(cmd *cobra.Command, dir string) (err error) {
	switch info, err := os.Stat(dir); {
	case err != nil:
		return fmt.Errorf("%w: name the directory of a plugin's main package", err)
	case !info.IsDir():
		return fmt.Errorf("%s is a file: name the directory of a plugin's main package", dir)
	}
	if info, err := os.Stat(f.out); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory: name the file to write: -o %s", f.out, filepath.Join(f.out, "NAME.wasm"))
	}
	var compiler toolchain.Compiler
	if !f.standard {
		if compiler, err = toolchain.FindTinyGo(f.tinygo, dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(f.out), 0o755); err != nil {
		return err
	}
	if err := traps.Check(cmd.Context(), compiler, dir); err != nil {
		return err
	}
	return compiler.Build(cmd.Context(), dir, f.out)
}
