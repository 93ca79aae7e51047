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

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

func openCache(dir string) (wazero.CompilationCache, error) {
	if dir == "" {
		return wazero.NewCompilationCache(), nil
	}
	if err := checkCacheDir(dir); err != nil {
		return nil, err
	}
	return wazero.NewCompilationCacheWithDir(dir)
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
	return checkOwner(dir, info)
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
	if err != nil && s.cacheDir != "" && ctx.Err() == nil && ownTrouble(err) {
		s.config.Logger.Warn("compile cache is damaged, emptying it", "dir", s.cacheDir, "error", err)
		if err := emptyCache(s.cacheDir); err != nil {
			return nil, err
		}
		compiled, err = s.runtime.CompileModule(ctx, wasm)
	}
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("compilation was given up: %w", context.Cause(ctx))
	}
	return compiled, err
}

// ownTrouble tells an error of the cache from one of the module.
func ownTrouble(err error) bool {
	var file *fs.PathError
	return errors.As(err, &file) || strings.Contains(err.Error(), "compilationcache: ")
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
