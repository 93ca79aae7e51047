package command

import (
	"os"
	"os/exec"
	"path/filepath"
)

// Find returns the path of another program of the project, which is beside this one or in PATH.
func Find(program string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), program)); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(program)
}
