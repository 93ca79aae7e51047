//go:build !unix

package toolchain

import "os/exec"

func killWithChildren(*exec.Cmd) {} // the process is killed, and its children are not
