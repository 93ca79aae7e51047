package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// openCache opens the cache on disk. Where nothing can be written code is kept
// in memory: then each start compiles anew, which is slower and no more.
func openCache(dir string, logger hclog.Logger) (wazero.CompilationCache, error) {
	if dir == "" {
		return wazero.NewCompilationCache(), nil
	}
	err := checkCacheDir(dir)
	if unwritable(err) {
		logger.Warn("compile cache cannot be written, plugins are compiled anew at each start: make room, give the right to write, or name another directory in cacheDir of the configuration", "dir", dir, "error", err)
		return wazero.NewCompilationCache(), nil
	}
	if err != nil {
		return nil, err
	}
	return wazero.NewCompilationCacheWithDir(dir)
}

// unwritable tells a full, read-only or forbidden place, which is no danger,
// from a name that is wrong.
func unwritable(err error) bool {
	var file *fs.PathError
	return errors.As(err, &file) && !errors.Is(err, syscall.ENOTDIR)
}

// checkCacheDir makes the directory if it is missing, and refuses one in
// which another user could place code for this process to run.
func checkCacheDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("look at directory: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link: name the directory itself", dir)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others may write %s (mode %#o), and what is in it is executed: run chmod 700 on it or choose another directory", dir, info.Mode().Perm())
	}
	if err := checkOwner(dir, info); err != nil {
		return err
	}
	return tryWrite(dir)
}

func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, "try-*")
	if err != nil {
		return fmt.Errorf("write to directory: %w", err)
	}
	f.Close()
	return os.Remove(f.Name())
}

// compile makes native code of a verified module, from the cache if it is
// there. Modules are compiled one at a time, and given up when ctx ends.
func (s *Sandbox) compile(ctx context.Context, wasm []byte) (wazero.CompiledModule, error) {
	select {
	case s.compiling <- struct{}{}:
		defer func() { <-s.compiling }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other modules: %w", context.Cause(ctx))
	}
	// The engine looks at ctx between functions only if it has two workers
	// or more.
	ctx = experimental.WithCompilationWorkers(ctx, max(2, runtime.GOMAXPROCS(0)))
	compiled, err := s.runtime.CompileModule(ctx, wasm)
	if err != nil && s.cacheDir != "" && ctx.Err() == nil {
		compiled, err = s.compileAgain(ctx, wasm, err)
	}
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("compilation was given up: %w", context.Cause(ctx))
	}
	return compiled, err
}

// compileAgain repairs the cache if it was to blame.
func (s *Sandbox) compileAgain(ctx context.Context, wasm []byte, err error) (wazero.CompiledModule, error) {
	switch {
	case unwritable(err):
		s.config.Logger.Warn("compile cache cannot be used, the plugin is compiled without it: make room, or give the right to write", "dir", s.cacheDir, "error", err)
		// What could not be written the engine has in memory by now.
		compiled, again := s.runtime.CompileModule(ctx, wasm)
		if again == nil {
			return compiled, nil
		}
		err = again
	case !strings.Contains(err.Error(), "compilationcache: "):
		return nil, err // of the module
	}
	s.config.Logger.Warn("compile cache is damaged, emptying it", "dir", s.cacheDir, "error", err)
	if err := emptyCache(s.cacheDir); err != nil {
		return nil, err
	}
	return s.runtime.CompileModule(ctx, wasm)
}

// emptyCache removes the entries, which the engine keeps one level down.
func emptyCache(dir string) error {
	entries, err := filepath.Glob(filepath.Join(dir, "wazero-*", "*"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.Remove(entry); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("empty compile cache: %w", err)
		}
	}
	return nil
}
