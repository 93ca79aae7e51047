//go:build unix && !linux

package main

import "syscall"

// processAttributes has nothing to ask of other kernels.
func processAttributes() *syscall.SysProcAttr { return nil }
