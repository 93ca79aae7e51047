package native

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reserved is memory that counts for the limit and that the Go runtime and its
// threads' stacks do not use: a compilation that reaches the limit has this much
// less in memory.
const reserved = 96 << 20

// limitProcess bounds the private memory of this process and the files that it
// writes, in bytes. The Go runtime exits when it gets no more memory. If the
// machine has less than that, the kernel's OOM killer is to choose this process
// and not the host.
func limitProcess(memory, file uint64) error {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	memory = memory*detectorMemory + reserved
	return errors.Join(
		syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: memory, Max: memory}),
		syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: file, Max: file}))
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

// processorTime returns how much processor time a process has used, 0 if it has
// ended.
func processorTime(pid int) time.Duration {
	clock := int32(^pid<<3 | 2) // clock_getcpuclockid(3): the time of all threads of a process
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// sharedMemory is a directory in memory that containers have even if nothing
// else can be written.
const sharedMemory = "/dev/shm"

// wasKilled reports whether a process was ended by a signal that cannot be
// caught, as the kernel does when there is no memory.
func wasKilled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
