package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// openCache opens the cache on disk. If its directory cannot be written, a
// private one is used that is removed with the store: then each start compiles
// anew, which costs time and is no danger. A compiler process needs a directory
// in any case. The result is nil if code is in memory only.
func openCache(ctx context.Context, config Config) (*disk, error) {
	if config.Dir == "" && len(config.Compiler) == 0 {
		return nil, nil
	}
	if config.Dir != "" {
		d, err := openShared(ctx, config)
		if !isWriteError(err) {
			return d, err
		}
		config.problem.Store(&err)
		config.Logger.Warn("compile cache cannot be written, compiling plugins anew at each start: make room, give the right to write, or name another directory in cacheDir of the configuration", "dir", config.Dir, "error", err)
	}
	d, err := openPrivate(ctx, config, os.TempDir())
	if err != nil && sharedMemory != "" && len(config.Compiler) > 0 {
		d, err = openPrivate(ctx, config, sharedMemory)
	}
	if err != nil && len(config.Compiler) == 0 {
		config.Logger.Warn("compiled plugins cannot be written, keeping them in memory: make room for temporary files", "error", err)
		return nil, nil
	}
	return d, err
}

// openShared opens the directory that hosts share, one after the other or at the
// same time.
func openShared(ctx context.Context, config Config) (*disk, error) {
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, err
	}
	if dir, err = checkDir(dir); err != nil {
		return nil, err
	}
	return openDisk(ctx, dir, config, false)
}

// openPrivate opens a directory for this store alone, which is removed with it.
func openPrivate(ctx context.Context, config Config, base string) (*disk, error) {
	if err := checkBase(base); err != nil {
		return nil, err
	}
	prune(base, time.Now())
	dir, err := os.MkdirTemp(base, privatePattern) // mode 0700
	if err != nil {
		return nil, err
	}
	return openDisk(ctx, dir, config, true)
}

// errCompilerWrite is the error of a compiler process that could not write.
var errCompilerWrite = errors.New("the compiler cannot write")

// isWriteError reports whether a place is full, read-only or forbidden, which is
// no danger. A path through a file is a mistake in the configuration instead.
func isWriteError(err error) bool {
	_, file := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	return errors.Is(err, errCompilerWrite) || (file || link) && !errors.Is(err, syscall.ENOTDIR)
}

// checkDir creates the directory if it is missing, and returns its path without
// symbolic links. It refuses one in which another user could place code for this
// process to execute, or which another user could replace. Whether it can be
// written shows when openDisk creates a directory in it.
func checkDir(dir string) (resolved string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create directory: %w", err)
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("stat directory: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		return "", fmt.Errorf("%s is a symbolic link: name the directory itself", dir)
	case info.Mode().Perm()&writableByOthers != 0:
		return "", fmt.Errorf("%s is writable by other users (mode %#o), and its content is executed: choose another directory, or change the mode of this one to 0700", dir, info.Mode().Perm())
	}
	if err := checkOwner(dir, info, false); err != nil {
		return "", err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return "", fmt.Errorf("resolve directory: %w", err)
	}
	return filepath.Join(parent, filepath.Base(dir)), checkParents(parent)
}

// checkBase refuses a directory for a private one if others may replace that.
func checkBase(base string) error {
	if resolved, err := filepath.EvalSymlinks(base); err == nil {
		return checkParents(resolved)
	}
	return nil // it cannot be used, which shows when something is created in it
}

const writableByOthers = 0o022

// checkParents refuses a directory whose entries others may rename, and one that
// is in such a directory. Where the sticky bit is set only the owner of an entry
// may. Most volumes of pods may be written by everybody, but by nobody outside of
// the pod.
func checkParents(dir string) error {
	inPod := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return fmt.Errorf("stat directory: %w", err)
		}
		others := info.Mode().Perm()&writableByOthers != 0 && info.Mode()&fs.ModeSticky == 0
		if others && !inPod {
			return fmt.Errorf("%s is writable by other users (mode %#o), who could replace the cache in it, which is executed: choose another directory, or change the mode of this one to 0755", at, info.Mode().Perm())
		}
		if err := checkOwner(at, info, true); err != nil {
			return err
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

const (
	// Everything that this package creates in the directory begins with thole.
	// Other files there are not touched.
	storePrefix    = "thole-code-"
	stagingPattern = "thole-open-*"
	compilePattern = "thole-compile-*"
	privatePattern = "thole-private-*"
	// keepEntries is how long an entry is kept that no host has opened.
	keepEntries = 30 * 24 * time.Hour
	// keepLeftovers is how long the directories of processes are kept, which
	// may have been killed. A process that still runs creates its own again.
	keepLeftovers = 24 * time.Hour
	// defaultBytes is enough for some 700 versions of a TinyGo plugin.
	defaultBytes = 1 << 30
)

// prune removes what no process has used for long. Failures are ignored: the
// next start tries again.
func prune(dir string, now time.Time) {
	for pattern, keep := range map[string]time.Duration{
		filepath.Join(storePrefix+"*", "*"): keepEntries, // of every version of the engine
		stagingPattern:                      keepLeftovers,
		compilePattern:                      keepLeftovers,
		privatePattern:                      keepLeftovers,
	} {
		for _, e := range cachedFiles(dir, pattern) {
			if now.Sub(e.used) > keep {
				_ = os.RemoveAll(e.path)
			}
		}
	}
}

// trim removes the least recently opened entries until the others have at most
// that many bytes. A process that runs the code of a removed one has it open.
func trim(dir string, limit uint64) {
	entries := cachedFiles(dir, filepath.Join(storePrefix+"*", "*"))
	slices.SortFunc(entries, func(a, b cachedFile) int { return b.used.Compare(a.used) })
	var total uint64
	for _, e := range entries {
		if total += e.size; total > limit {
			_ = os.Remove(e.path)
		}
	}
}

// cachedFile is a file or directory in the cache's directory.
type cachedFile struct {
	path string
	size uint64
	used time.Time
}

func cachedFiles(dir, pattern string) (all []cachedFile) {
	paths, _ := filepath.Glob(filepath.Join(dir, pattern))
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil {
			all = append(all, cachedFile{path, uint64(info.Size()), info.ModTime()})
		}
	}
	return all
}
