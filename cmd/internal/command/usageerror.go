package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/thole-dev/thole/abi/rawjson"
)

// usageError is an error in the use of a command: its exit code is 2.
type usageError struct {
	command string
	error
}

func (e *usageError) Unwrap() error { return e.error }

// Misuse returns an error in the use of a command: [Execute] returns 2 for it. nil stays nil.
func Misuse(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return &usageError{cmd.CommandPath(), err}
}

// NoArgs refuses arguments as wrong use; instead is what to do.
func NoArgs(instead string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Misuse(cmd, fmt.Errorf("unexpected argument %q: %s", args[0], instead))
		}
		return nil
	}
}

// typos is how many letters of a command may be wrong; of one that has hardly
// more, the first is right.
const typos = 2

func unknownCommand(root *cobra.Command, name string) error {
	root.SuggestionsMinimumDistance = typos
	for _, near := range root.SuggestionsFor(name) {
		if len(name) > typos+1 || name != "" && near[0] == name[0] {
			return fmt.Errorf("unknown command %q, did you mean %q?", name, near)
		}
	}
	return fmt.Errorf("unknown command %q", name)
}

// flagError adds to the error about an unknown flag which one may have been
// meant, and to that about a value what it may be.
func flagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok && invalid.GetFlag().Value.Type() == "bool" {
		return fmt.Errorf("invalid value %q for --%s: want true or false", invalid.GetValue(), invalid.GetFlag().Name)
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if near, ok := rawjson.Nearest(unknown.GetSpecifiedName(), known); ok {
		return fmt.Errorf("%w, did you mean %q?", err, "--"+near)
	}
	return err
}
