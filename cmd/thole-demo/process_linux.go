package main

import "syscall"

// processAttributes lets the kernel kill a child if we die without asking it to
// end.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
