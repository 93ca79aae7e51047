package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/cmd/internal/command"
)

// toolsProgram has the commands that are for a workstation. They link compilers, validators and the types of Kubernetes,
// which the program that runs in a cluster does without.
const toolsProgram = "thole-tools"

// toolCommands returns the commands that run [toolsProgram].
func toolCommands() []*cobra.Command {
	return []*cobra.Command{
		toolCommand("build", "Compile a plugin"),
		toolCommand("dev", "Build a plugin from its source and run it, again after every save"),
		toolCommand("generate", "Generate JSON codecs for the types of a plugin"),
		toolCommand("inspect", "Show what a plugin is and needs, and whether a host would load it"),
		toolCommand("rbac", "Print the service account, roles and bindings that a plugin needs"),
	}
}

func toolCommand(name, short string) *cobra.Command {
	run := func(_ *cobra.Command, args []string) error {
		path, err := command.Find(toolsProgram)
		if err != nil {
			return fmt.Errorf("thole %s is a command of %s, which is neither beside thole nor in PATH: "+
				"build it by `make bin/%[2]s` in the repository of Thole", name, toolsProgram)
		}
		return become(path, append([]string{toolsProgram, name}, args...))
	}
	c := &cobra.Command{Use: name, Short: short, DisableFlagParsing: true, RunE: run}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) { // of thole help COMMAND
		if err := run(c, []string{"--help"}); err != nil {
			c.PrintErrln("thole: " + err.Error())
		}
	})
	return c
}
