//go:build unix

package child

import (
	"os"
	"os/exec"
	"syscall"
)

func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// kill ends the whole group.
func kill(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }
