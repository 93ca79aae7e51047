package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
)

// toolsProgram has the commands that are for a workstation. They link compilers, validators and the types of Kubernetes,
// which the program that runs in a cluster does without.
const toolsProgram = "thole-tools"

// toolCommands returns the commands that run [toolsProgram].
func toolCommands() []*cobra.Command {
	var commands []*cobra.Command
	for name, short := range map[string]string{
		"build":    "Compile a plugin",
		"dev":      "Build a plugin from its source and run it, again after every save",
		"generate": "Generate JSON codecs for the types of a plugin",
		"inspect":  "Show what a plugin is and needs, and whether a host would load it",
		"rbac":     "Print the service account, roles and bindings that a plugin needs",
	} {
		commands = append(commands, &cobra.Command{
			Use: name, Short: short, DisableFlagParsing: true,
			RunE: func(_ *cobra.Command, args []string) error {
				path, err := findTools()
				if err != nil {
					return err
				}
				return become(path, append([]string{toolsProgram, name}, args...))
			},
		})
	}
	return commands
}

// findTools returns the path of [toolsProgram], which is beside this program or in PATH.
func findTools() (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), toolsProgram)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(toolsProgram)
	if err != nil {
		return "", fmt.Errorf("this command is in the program %s, which is neither beside thole nor in PATH: install it by "+
			"go install github.com/thole-dev/thole/cmd/%[1]s", toolsProgram)
	}
	return path, nil
}
