//go:build !unix

package child

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

func terminate(p *os.Process) error { return p.Kill() }

func kill(p *os.Process) error { return p.Kill() }
