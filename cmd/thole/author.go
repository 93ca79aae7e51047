package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
)

// authorProgram has the commands of authors. They link compilers and validators that no cluster needs, which is why they
// are in a program of their own.
const authorProgram = "thole-author"

// authorCommands returns the commands that run [authorProgram].
func authorCommands() []*cobra.Command {
	var commands []*cobra.Command
	for name, short := range map[string]string{
		"build":    "Compile a plugin",
		"dev":      "Build a plugin from its source and run it, again after every save",
		"generate": "Generate JSON codecs for the types of a plugin",
	} {
		commands = append(commands, &cobra.Command{
			Use: name, Short: short, DisableFlagParsing: true,
			RunE: func(_ *cobra.Command, args []string) error {
				path, err := findAuthor()
				if err != nil {
					return err
				}
				return become(path, append([]string{authorProgram, name}, args...))
			},
		})
	}
	return commands
}

// findAuthor returns the path of [authorProgram], which is beside this program or in PATH.
func findAuthor() (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), authorProgram)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(authorProgram)
	if err != nil {
		return "", fmt.Errorf("this command is in the program %s, which is neither beside thole nor in PATH: install it by "+
			"go install github.com/thole-dev/thole/cmd/%[1]s", authorProgram)
	}
	return path, nil
}
