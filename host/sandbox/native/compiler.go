package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole/host/sanitize"
)

// The engine cannot be stopped while it compiles a function, and a small
// function can keep it busy for minutes and fill the memory. So the host
// compiles in a process of its own, which can be killed, has a memory limit, and
// has a lower priority than the calls of other plugins.

// The files of a compilation in its directory.
const (
	moduleFile   = "module"
	skeletonFile = "skeleton"
	outputSuffix = ".code" // of a directory, for each of the two
)

// Exit codes of a compiler.
const (
	exitCompiled   = 0
	exitRefused    = 1 // the module is not valid; the reason is on stderr
	exitWriteError = 3
)

// Compiler is the program that [Config.Compiler] names: it compiles the module
// that a host has put into a directory, and returns the exit code. It exits when
// its input ends, which the host keeps open while it lives. Its arguments are the
// directory and how much memory it may have, in bytes.
func Compiler(ctx context.Context, args []string, stdin io.Reader, stderr io.Writer) int {
	if err := runCompiler(ctx, args, stdin); err != nil {
		fmt.Fprintln(stderr, err)
		if isWriteError(err) {
			return exitWriteError
		}
		return exitRefused
	}
	return exitCompiled
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
		os.Exit(exitWriteError)
	}()
	return compileFiles(ctx, args[0])
}

// compileFiles makes native code of the modules in a directory.
func compileFiles(ctx context.Context, dir string) error {
	for _, name := range []string{moduleFile, skeletonFile} {
		path := filepath.Join(dir, name)
		wasm, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := compileInto(ctx, path+outputSuffix, wasm); err != nil {
			return err
		}
	}
	return nil
}

// compileInto makes native code of a module in a directory, by an engine of its
// own.
func compileInto(ctx context.Context, dir string, wasm []byte) error {
	e, err := newEngine(ctx, dir, nil)
	if err != nil {
		return err
	}
	_, err = compileModule(ctx, e.runtime, wasm)
	return errors.Join(err, e.close(context.WithoutCancel(ctx)))
}

// outputOf returns the file that [compileFiles] has made of a module. The engine
// chooses the names of the file and of the directory that it is in.
func outputOf(dir, name string) (string, error) {
	dir = filepath.Join(dir, name+outputSuffix)
	engine, err := onlyEntry(dir)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, engine)
	file, err := onlyEntry(dir)
	return filepath.Join(dir, file), err
}

// onlyEntry returns the name of the only entry of a directory.
func onlyEntry(dir string) (string, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(all) != 1 {
		return "", fmt.Errorf("%s has %d entries, want one", dir, len(all))
	}
	return all[0].Name(), nil
}

// ErrTooExpensive is the error for a module that the compiler could not finish,
// or of which it made too much code.
var ErrTooExpensive = errors.New("its compilation needs too much")

// maxMessage bounds what is kept of a compiler's output, in bytes.
const maxMessage = 512

// compileInProcess runs a compiler on the modules in dir.
func (d *disk) compileInProcess(ctx context.Context, dir string) error {
	program, memory := d.config.Compiler, d.config.CompilerMemory
	cmd := exec.CommandContext(ctx, program[0], append(program[1:], dir, strconv.FormatUint(memory, 10))...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Env = []string{"GOTRACEBACK=none", fmt.Sprintf("GOMEMLIMIT=%d", memory/4*3)}
	cmd.WaitDelay = time.Second
	lifeline, err := cmd.StdinPipe() // closed by the system when this process ends, which ends the compiler
	if err != nil {
		return err
	}
	defer lifeline.Close()
	if err = startWithLowPriority(cmd); err != nil && ctx.Err() == nil {
		return fmt.Errorf("start compiler: %w", err)
	}
	if err == nil {
		err = cmd.Wait()
	}
	message := sanitize.Truncate(strings.TrimSpace(stderr.String()), maxMessage)
	line, _, _ := strings.Cut(message, "\n")
	switch code := cmd.ProcessState.ExitCode(); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("compilation was canceled: %w", context.Cause(ctx))
	case code == exitRefused:
		return errors.New(message)
	case code == exitWriteError:
		return fmt.Errorf("%w: %s", errCompilerWrite, message)
	case isOutOfMemory(line):
		return fmt.Errorf("%w: more than %d MiB of memory: build it of smaller functions", ErrTooExpensive, memory>>20)
	}
	return fmt.Errorf("%w: the compiler ended with %w: %s", ErrTooExpensive, err, line)
}

// isOutOfMemory reports whether a Go runtime has printed this line because it
// got no more memory, be it for data or for a thread's stack.
func isOutOfMemory(line string) bool {
	texts := []string{"out of memory", "cannot allocate memory", "pthread_create failed"}
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) })
}
