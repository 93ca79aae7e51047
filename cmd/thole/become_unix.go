//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// become replaces this process by a program. It returns only if that fails.
func become(path string, args []string) error { return unix.Exec(path, args, os.Environ()) }
