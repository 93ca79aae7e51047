package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/thole-dev/thole/cmd/internal/child"
)

const logs = "logs"

func (d *demo) logPath(name string) string { return d.path(logs, name) }

func (d *demo) manifestDir() string { return filepath.Join(d.manifestsDir, plugin) }

// keepLogs removes everything but the logs of the demo and of the control
// plane.
func keepLogs(dir string) error {
	return errors.Join(
		removeBut(dir, logs, "control-plane"),
		removeBut(filepath.Join(dir, "control-plane"), logs),
	)
}

func removeBut(dir string, kept ...string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if !slices.Contains(kept, e.Name()) {
			errs = append(errs, child.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}
