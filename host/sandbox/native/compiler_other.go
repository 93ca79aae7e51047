//go:build !linux

package native

import "os/exec"

func limitMemory(uint64) error { return nil }

func startWithLowPriority(cmd *exec.Cmd) error { return cmd.Start() }
