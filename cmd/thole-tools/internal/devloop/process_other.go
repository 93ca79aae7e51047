//go:build !unix

package devloop

import (
	"os"
	"os/exec"
)

func setProcessGroup(*exec.Cmd) {}

func isInterrupted(*os.ProcessState) bool { return false }

func terminate(p *os.Process) error { return p.Kill() }

func killGroup(p *os.Process) error { return p.Kill() }
