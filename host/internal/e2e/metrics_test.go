package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/internal/tholetest"
)

// idleTime is for how long a host must make no run to count as idle.
const idleTime = time.Second

// idleDetector detects that a host has become idle. Its zero value is ready to use.
type idleDetector struct {
	runs  float64   // of all controllers so far
	since time.Time // when the idle time began
}

// idle reports whether the host has been idle for idleTime, given its metrics now.
// It must be called again and again.
func (d *idleDetector) idle(m tholetest.Metrics) bool {
	runs := m.Sum("controller_runtime_reconcile_total")
	busy := m.Sum("workqueue_depth") > 0 || m.Sum("controller_runtime_active_workers") > 0
	if busy || runs != d.runs || d.since.IsZero() {
		d.runs, d.since = runs, time.Now()
	}
	return time.Since(d.since) > idleTime
}

// memoryMiB returns a line of the status that the kernel shows of the process, such
// as VmRSS.
func (p *process) memoryMiB(name string) float64 {
	p.tb.Helper()
	return memoryMiB(p.tb, p.PID(), name)
}

func memoryMiB(tb testing.TB, pid int, name string) float64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(tb, err)
	_, rest, _ := strings.Cut(string(text), name+":")
	var kib float64
	_, err = fmt.Sscanf(rest, "%f kB", &kib)
	must(tb, err)
	return kib / 1024
}

// cpuSeconds returns the processor time that a process has used so far, of the program
// and of the kernel for it.
func cpuSeconds(tb testing.TB, pid int) float64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(tb, err)
	// The name, which is in parentheses and may contain anything, is the second field.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var user, system float64
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	must(tb, err)
	const ticks = 100 // per second, on every architecture that Go supports
	return (user + system) / ticks
}
