//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
)

// become runs a program in the place of this process.
func become(path string, args []string) error {
	program := exec.Command(path, args[1:]...)
	program.Stdin, program.Stdout, program.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := program.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(ended.ExitCode())
	}
	return err
}
