package toolchain

import (
	"os/exec"
	"time"
)

// combinedOutput runs cmd, which must have a context, and returns what it writes.
// When the context ends, so do the processes that it has started.
func combinedOutput(cmd *exec.Cmd) ([]byte, error) {
	killWithChildren(cmd)
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}
