//go:build !linux

package native

import (
	"os"
	"os/exec"
	"time"
)

func limitProcess(_, _ uint64) error { return nil }

func startWithLowPriority(cmd *exec.Cmd) error { return cmd.Start() }

func processorTime(int) time.Duration { return 0 } // what counts is the elapsed time

const sharedMemory = ""

func wasKilled(*os.ProcessState) bool { return false }
