package native

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/thole-dev/thole/host/sandbox/module"
)

// The engine cannot be stopped while it compiles a function, and a small
// function can keep it busy for minutes and fill the memory. What is read before
// that expands too. So the host has modules verified, rewritten and compiled in
// processes of their own, which can be killed, have a memory limit, and have a
// lower priority than the calls of other plugins.

// request is what a host wants of a compiler. It is one line of JSON on the
// compiler's input, and the module follows it.
type request struct {
	Key     string          `json:"key"`
	Options json.RawMessage `json:"options,omitempty"`
	Bytes   int64           `json:"bytes"` // of the module
}

// The result is the report on the output, the entry in a file of that name in
// the directory, the reason on stderr if it is neither compiled nor refused, and
// an exit code. 2 is that of the Go runtime.
const (
	entryFile = "entry"

	exitCompiled   = 0
	exitInvalid    = 1 // the engine refuses the module
	exitWriteError = 3
	exitRefused    = 4 // [Prepare] refuses the module: the report contains why
	exitTooLarge   = 5 // there is more code than an entry may have
	exitNoMemory   = 6
)

// Streams are the standard streams of a process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Compiler is the program that [Config.Compiler] names: it compiles the module
// that a host sends to it, and returns the exit code. It exits when its input
// ends, which the host keeps open while it lives. Its arguments are the directory
// that it writes to and how much memory it may have, in bytes.
func Compiler(ctx context.Context, prepare Prepare, args []string, std Streams) int {
	report, err := runCompiler(ctx, prepare, args, std.In)
	_, outputError := std.Out.Write(report)
	switch err = errors.Join(err, outputError); {
	case err == nil:
		return exitCompiled
	case errors.Is(err, ErrRefused):
		return exitRefused
	case errors.Is(err, syscall.EFBIG):
		return exitTooLarge
	case errors.Is(err, errNoCode):
		return exitNoMemory
	}
	fmt.Fprintln(std.Err, err)
	if isWriteError(err) {
		return exitWriteError
	}
	return exitInvalid
}

func runCompiler(ctx context.Context, prepare Prepare, args []string, input io.Reader) (report []byte, err error) {
	if len(args) != 2 {
		return nil, errors.New("want a directory and a number of bytes: this command is for the host's own use")
	}
	limit, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return nil, err
	}
	if err := limitProcess(limit, maxEntry); err != nil {
		return nil, fmt.Errorf("limit memory: %w", err)
	}
	in := bufio.NewReader(input)
	r, wasm, err := readRequest(in)
	if err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(exitWriteError)
	}()
	return build(ctx, prepare, args[0], r, wasm, runtime.GOMAXPROCS(0))
}

func readRequest(in *bufio.Reader) (r request, wasm []byte, err error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return r, nil, err
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, nil, err
	}
	wasm = make([]byte, r.Bytes)
	_, err = io.ReadFull(in, wasm)
	return r, wasm, err
}

// build makes the entry of a module in a directory, and the report about it.
func build(ctx context.Context, prepare Prepare, dir string, r request, wasm []byte, workers int) (report []byte, err error) {
	rewritten, report := prepare(wasm, r.Options)
	if rewritten == nil {
		return report, ErrRefused
	}
	skeleton, err := module.Skeleton(rewritten, saltOf(rewritten))
	if err != nil {
		return report, err
	}
	code, err := compileInto(ctx, filepath.Join(dir, "code"), rewritten, workers)
	if err != nil {
		return report, err
	}
	name, err := compileInto(ctx, filepath.Join(dir, "skeleton"), skeleton, workers)
	if err != nil {
		return report, err
	}
	info := entryInfo{Key: r.Key, Name: filepath.Base(name), Report: report}
	if err := seal(code, info, skeleton); err != nil {
		return report, err
	}
	return report, os.Rename(code, filepath.Join(dir, entryFile))
}

// compileInto makes native code of a module in a directory, by an engine of its
// own, and returns the path of the file.
func compileInto(ctx context.Context, dir string, wasm []byte, workers int) (path string, err error) {
	e, err := newEngine(ctx, dir, nil)
	if err != nil {
		return "", err
	}
	_, err = compileModule(ctx, e.runtime, wasm, workers)
	if err = errors.Join(err, e.close(context.WithoutCancel(ctx))); err != nil {
		return "", err
	}
	// The engine chooses the names of the file and of the directory that it is in.
	all, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err == nil && len(all) != 1 {
		err = errNoCode
	}
	return strings.Join(all, " "), err
}

// errNoCode is the error for an engine that has written no code: it interprets
// modules if it finds no memory for code when it starts.
var errNoCode = errors.New("the engine has made no native code")

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
