package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/thole-dev/thole/host/sanitize"
)

// maxMessage bounds what is kept of what a compiler prints, in bytes.
const maxMessage = 4 << 10

// compileInProcess has a compiler make the entry of a module in a directory, and
// returns the report about the module.
func (d *disk) compileInProcess(ctx context.Context, dir string, r request, wasm []byte, t *turn) (report []byte, err error) {
	program := d.config.Compiler
	cmd := exec.CommandContext(ctx, program[0], append(slices.Clone(program[1:]), dir, strconv.FormatUint(t.memory, 10))...)
	stdout, stderr := &bounded{left: MaxReport + 1}, &bounded{left: maxMessage}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// There is little garbage, so that it is collected only when the memory is
	// nearly used up.
	cmd.Env = []string{
		"GOTRACEBACK=none", "GOGC=off", fmt.Sprintf("GOMEMLIMIT=%d", t.memory/4*3), fmt.Sprintf("GOMAXPROCS=%d", t.share),
	}
	cmd.WaitDelay = time.Second
	input, err := cmd.StdinPipe() // closed by the system when this process ends, which ends the compiler
	if err != nil {
		return nil, err
	}
	defer input.Close()
	if err = startWithLowPriority(cmd); err != nil {
		if ctx.Err() != nil {
			return nil, canceled(ctx)
		}
		return nil, fmt.Errorf("start compiler: %w", err)
	}
	go send(input, r, wasm)
	endWatch := t.watch(ctx, cmd.Process.Pid, d.config.Timeout)
	err = cmd.Wait()
	endWatch()
	if ctx.Err() != nil && err != nil {
		return nil, canceled(ctx)
	}
	if len(stdout.text) > MaxReport {
		return nil, fmt.Errorf("%w: the report about it is larger than %d bytes", ErrTooExpensive, MaxReport)
	}
	return stdout.text, compilerError(err, cmd, stderr, t.memory)
}

// send writes a request. An error means that the compiler has ended, whose exit
// code states why.
func send(input io.Writer, r request, wasm []byte) {
	line, _ := json.Marshal(r) // never fails: it has strings, a number and JSON
	_, err := input.Write(append(line, '\n'))
	if err == nil {
		_, _ = input.Write(wasm)
	}
}

// pollTime is how often the processor time of a compiler is read.
const pollTime = 20 * time.Millisecond

// patience is how many times as long as its processor time an attempt may take,
// where the machine is busy.
const patience = 10

// watch lets a compilation give way once it has had its time, and ends it once it has used
// the most that one may. When end has returned nothing watches it any more: a further
// attempt of the same turn is not overdue because of this one.
func (t *turn) watch(ctx context.Context, pid int, most time.Duration) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { t.watchProcess(ctx, pid, most) })
	return func() {
		cancel()
		watching.Wait()
	}
}

func (t *turn) watchProcess(ctx context.Context, pid int, most time.Duration) {
	ticker := time.NewTicker(pollTime)
	defer ticker.Stop()
	began, limit, overdue := time.Now(), t.time(), false
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			used := processorTime(pid)
			if used > most {
				t.queue.stop(t, errTooMuchTime(most))
				return
			}
			if !overdue && (used > limit || now.Sub(began) > patience*limit) {
				overdue = true
				t.queue.setOverdue(t)
			}
		}
	}
}

// compilerError returns why a compiler has failed, nil if it has not.
func compilerError(err error, cmd *exec.Cmd, stderr *bounded, memory uint64) error {
	message := sanitize.Truncate(strings.TrimSpace(string(stderr.text)), maxMessage)
	line, _, _ := strings.Cut(message, "\n")
	switch code := cmd.ProcessState.ExitCode(); {
	case err == nil:
		return nil
	case code == exitRefused:
		return ErrRefused
	case code == exitTooLarge:
		return errTooLarge
	case code == exitInvalid:
		return errors.New(message)
	case code == exitWriteError:
		return fmt.Errorf("%w: %s", errCompilerWrite, message)
	case code == exitNoMemory, isOutOfMemory(line):
		return fmt.Errorf("%w: more than %d MiB of memory: build it of smaller functions", errUnfinished, memory>>20)
	case wasKilled(cmd.ProcessState):
		return errKilled
	}
	return fmt.Errorf("%w: the compiler ended with %w: %s", errUnfinished, err, line)
}

// isOutOfMemory reports whether a Go runtime, or its race detector, has printed this
// line because it got no more memory, be it for data or for a thread's stack.
func isOutOfMemory(line string) bool {
	texts := []string{"out of memory", "cannot allocate memory", "pthread_create failed", "ThreadSanitizer failed to allocate"}
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) })
}

// bounded keeps what is written to it, up to a number of bytes.
type bounded struct {
	text []byte
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	kept := min(len(p), b.left)
	b.text, b.left = append(b.text, p[:kept]...), b.left-kept
	return len(p), nil
}
