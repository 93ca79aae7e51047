package native

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// limitMemory bounds the private memory of this process. The runtime ends it
// when it needs more. If the machine has less the kernel is to end this
// process, and not the host.
func limitMemory(bytes uint64) error {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: bytes, Max: bytes})
}

// niceness of a compiler: beside a guest's call it gets a quarter of a
// processor.
const niceness = 5

// startNicely starts a process with less of a claim to the processor than
// this one. A thread cannot get its own claim back, so one that ends with its
// goroutine does it.
func startNicely(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // for good
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, niceness)
		started <- cmd.Start()
	}()
	return <-started
}
