package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
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
			errs = append(errs, removeAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// removeAll removes a directory. One whose writers were killed a moment ago may
// still be written to, so it is tried for a while.
func removeAll(dir string) error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := os.RemoveAll(dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(pollInterval)
	}
}
