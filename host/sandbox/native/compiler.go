package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Nothing can stop the engine while it compiles a function, and a small one
// can keep it busy for minutes and fill the memory. So a host compiles in a
// process of its own: that can be killed, has a limit of memory, and leaves
// the processor to the calls of other plugins.

// A compilation reads and writes these names in a directory.
const (
	moduleFile   = "module"
	skeletonFile = "skeleton"
	outputSuffix = ".code"
)

// Exit codes of a compiler.
const (
	compiledCode  = 0
	refusedModule = 1 // what is wrong with it is on stderr
	cannotWrite   = 3
)

// Compiler is the program that Compiler in [Config] names: it compiles the module
// that a host has put into a directory, and returns the exit code. It ends
// when its input does, which the host holds open while it lives. Its
// arguments are the directory and how much memory it may have, in bytes.
func Compiler(ctx context.Context, args []string, stdin io.Reader, stderr io.Writer) int {
	if err := runCompiler(ctx, args, stdin); err != nil {
		fmt.Fprintln(stderr, err)
		if unwritable(err) {
			return cannotWrite
		}
		return refusedModule
	}
	return compiledCode
}

func runCompiler(ctx context.Context, args []string, stdin io.Reader) error {
	if len(args) != 2 {
		return errors.New("want a directory and a number of bytes: this command is for the host's own use")
	}
	limit, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	if err := limitMemory(limit); err != nil {
		return fmt.Errorf("limit memory: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		os.Exit(cannotWrite)
	}()
	return compileFiles(ctx, args[0])
}

// ErrHeavy is for a module that the compiler could not finish, or of which it
// made too much code.
var ErrHeavy = errors.New("its compilation needs too much")

// outside runs a compiler on the modules in dir.
func (d *disk) outside(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, d.config.Compiler[0], append(d.config.Compiler[1:], dir, strconv.FormatUint(d.config.CompilerMemory, 10))...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Env = []string{"GOTRACEBACK=none", fmt.Sprintf("GOMEMLIMIT=%d", d.config.CompilerMemory/4*3)}
	cmd.WaitDelay = time.Second
	alive, err := cmd.StdinPipe() // it ends with this process
	if err != nil {
		return err
	}
	defer alive.Close()
	if err = startNicely(cmd); err != nil && ctx.Err() == nil {
		return fmt.Errorf("start compiler: %w", err)
	}
	if err == nil {
		err = cmd.Wait()
	}
	said := bounded(stderr.Bytes())
	line, _, _ := strings.Cut(said, "\n")
	switch code := cmd.ProcessState.ExitCode(); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("compilation was given up: %w", context.Cause(ctx))
	case code == refusedModule:
		return errors.New(said)
	case code == cannotWrite:
		return fmt.Errorf("%w: %s", errCannotWrite, said)
	case withoutMemory(line):
		return fmt.Errorf("%w: more than %d MiB of memory: build it of smaller functions", ErrHeavy, d.config.CompilerMemory>>20)
	}
	return fmt.Errorf("%w: the compiler ended with %w: %s", ErrHeavy, err, line)
}

// withoutMemory tells how a runtime ends that gets no more memory, be it for
// data or for a thread's stack.
func withoutMemory(line string) bool {
	for _, words := range []string{"out of memory", "cannot allocate memory", "pthread_create failed"} {
		if strings.Contains(line, words) {
			return true
		}
	}
	return false
}

const mostWords = 512 // bytes of what a compiler said

func bounded(said []byte) string {
	said = bytes.TrimSpace(said[:min(len(said), mostWords)])
	return strings.ToValidUTF8(string(said), "\uFFFD")
}
