package native

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// limitMemory bounds the private memory of this process. The Go runtime exits
// when it gets no more. If the machine has less than that, the kernel's OOM
// killer is to choose this process and not the host.
func limitMemory(bytes uint64) error {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: bytes, Max: bytes})
}

// niceness of a compiler. Beside a guest's call it gets a quarter of a
// processor.
const niceness = 5

// startWithLowPriority starts a process with a lower priority than this one. A
// process inherits the priority of the thread that starts it, which cannot raise
// its own again, so that a thread does it that ends with its goroutine.
func startWithLowPriority(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, niceness)
		started <- cmd.Start()
	}()
	return <-started
}
