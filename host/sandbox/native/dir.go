package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// openCache opens the cache on disk. One that cannot be written is done
// without: then each start compiles anew, which costs more and is no danger,
// into a directory that ends with the store; a compiler of its own needs one
// in any case. nil: code is in memory only.
func openCache(ctx context.Context, config Config) (*disk, error) {
	if config.Dir == "" && len(config.Compiler) == 0 {
		return nil, nil
	}
	if config.Dir != "" {
		d, err := openShared(ctx, config)
		if !unwritable(err) {
			return d, err
		}
		config.Logger.Warn("compile cache cannot be written, plugins are compiled anew at each start: make room, give the right to write, or name another directory in cacheDir of the configuration", "dir", config.Dir, "error", err)
	}
	d, err := openPrivate(ctx, config)
	if err != nil {
		config.Logger.Warn("no place for compiled plugins, they stay in memory: make room for temporary files", "error", err)
		return nil, nil
	}
	return d, nil
}

func openShared(ctx context.Context, config Config) (*disk, error) {
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, err
	}
	if err := checkCacheDir(dir); err != nil {
		return nil, err
	}
	return openDisk(ctx, dir, config)
}

// openPrivate opens a cache that nobody else knows and that ends with it.
func openPrivate(ctx context.Context, config Config) (*disk, error) {
	prune(os.TempDir(), time.Now())
	dir, err := os.MkdirTemp("", privatePattern) // mode 0700
	if err != nil {
		return nil, err
	}
	d, err := openDisk(ctx, dir, config)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	d.private = true
	return d, nil
}

// errCannotWrite is what a compiler met that could not write.
var errCannotWrite = errors.New("the compiler cannot write")

// unwritable tells a full, read-only or forbidden place, which is no danger,
// from a name that is wrong.
func unwritable(err error) bool {
	_, file := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	return errors.Is(err, errCannotWrite) || (file || link) && !errors.Is(err, syscall.ENOTDIR)
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
		return fmt.Errorf("others may write %s (mode %#o), and what is in it is executed: choose another directory, or if nobody else needs this one, make it mode 0700", dir, info.Mode().Perm())
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
