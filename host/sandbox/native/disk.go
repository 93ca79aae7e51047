package native

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/thole-dev/thole/host/sandbox/module"
)

// disk keeps compiled modules in a directory, and opens them with an engine of
// its own. The layout:
//
//	<dir>/thole-code-<engine>/<key>  entries
//	<dir>/thole-open-*               where the engine of a process looks for code
//	<dir>/thole-compile-*            where an engine that compiles writes it
type disk struct {
	engine
	config  Config
	dir     string
	name    string // of the engine: its version and the machine
	private bool   // whether dir is removed with it
	staging string

	opening sync.Mutex // held while an entry is opened, so that what the engine writes meanwhile is of that entry
}

// openDisk opens the cache on disk. The directory must have been checked. A
// private one is removed with the cache, also if it cannot be opened.
func openDisk(ctx context.Context, dir string, c Config, private bool) (_ *disk, err error) {
	prune(dir, time.Now())
	d := &disk{config: c, dir: dir, private: private}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close(ctx))
		}
	}()
	if d.staging, err = os.MkdirTemp(dir, stagingPattern); err != nil {
		return nil, err
	}
	if d.engine, err = newEngine(ctx, d.staging, nil); err != nil {
		return nil, err
	}
	if d.name, err = onlyEntry(d.staging); err != nil {
		return nil, err
	}
	return d, errors.Join(c.HostModules(ctx, d.runtime), os.MkdirAll(d.path(""), 0o700))
}

func (d *disk) close(ctx context.Context) error {
	if d == nil {
		return nil
	}
	err := errors.Join(d.engine.close(ctx), os.RemoveAll(d.staging))
	if d.private {
		err = errors.Join(err, os.RemoveAll(d.dir))
	}
	return err
}

func (d *disk) path(key string) string { return filepath.Join(d.dir, storePrefix+d.name, key) }

// find opens and verifies the entry of a key.
func (d *disk) find(key string) (*entry, error) {
	path := d.path(key)
	e, err := openEntry(path)
	if err != nil {
		return nil, fmt.Errorf("open entry %s: %w", path, err)
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // prune and trim remove what was used least recently
	return e, nil
}

// errNotCached is the error for an entry that does not fit this engine on this
// machine.
var errNotCached = errors.New("the engine has no code for it")

// open makes the code of a verified entry executable. The engine decodes and
// validates only the skeleton: the function bodies were when the code was made.
// Opening an entry for the second time writes nothing.
func (d *disk) open(ctx context.Context, e *entry) (Module, error) {
	skeleton, err := e.skeleton()
	if err != nil {
		return Module{}, err
	}
	d.opening.Lock()
	defer d.opening.Unlock()
	if err := d.link(e); err != nil {
		return Module{}, err
	}
	compiled, err := d.runtime.CompileModule(ctx, skeleton)
	if err != nil {
		return Module{}, err
	}
	if d.removeCompiled() {
		return Module{}, errors.Join(errNotCached, compiled.Close(ctx))
	}
	return Module{d.runtime, compiled, e}, nil
}

// link makes the engine find an entry: by a symbolic link to the open file. That
// is the file that was verified, even if it has been removed or replaced since.
func (d *disk) link(e *entry) error {
	dir := filepath.Join(d.staging, d.name)
	path := filepath.Join(dir, e.info.Name)
	target := fmt.Sprintf("/dev/fd/%d", e.file.Fd())
	if have, err := os.Readlink(path); err == nil && have == target {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	e.unlink = func() { d.unlink(path, target) }
	return os.Symlink(target, path)
}

// unlink removes a link, unless it is another entry's by now.
func (d *disk) unlink(path, target string) {
	d.opening.Lock()
	defer d.opening.Unlock()
	if have, err := os.Readlink(path); err == nil && have == target {
		_ = os.Remove(path)
	}
}

// removeCompiled removes code that the engine has written itself, and reports
// whether there was any. In that case it did not find the entry's code, and has
// compiled the skeleton, whose functions trap.
func (d *disk) removeCompiled() (found bool) {
	dir := filepath.Join(d.staging, d.name)
	all, err := os.ReadDir(dir)
	for _, f := range all {
		if f.Type()&fs.ModeSymlink == 0 {
			found = true
			_ = os.Remove(filepath.Join(dir, f.Name()))
		}
	}
	return found || err != nil
}

// compile makes native code of a module in a new entry, and opens it.
func (d *disk) compile(ctx context.Context, key string, wasm, metadata []byte) (Module, error) {
	e, err := d.save(ctx, key, wasm, metadata)
	if err != nil {
		return Module{}, err
	}
	m, err := d.open(ctx, e)
	if err != nil {
		e.close()
	}
	return m, err
}

// save compiles a module into a new entry. If the cache cannot be written, the
// entry is a temporary file that is removed when it is closed.
func (d *disk) save(ctx context.Context, key string, wasm, metadata []byte) (*entry, error) {
	e, err := d.saveIn(ctx, d.dir, d.path(key), wasm, metadata)
	if !isWriteError(err) {
		return e, err
	}
	d.config.Logger.Warn("compile cache cannot be written, compiling the plugin without it: make room, or give the right to write", "dir", d.dir, "error", err)
	return d.saveIn(ctx, os.TempDir(), "", wasm, metadata)
}

// saveIn compiles a module in a new directory under base, and moves the entry to
// a path unless that is "".
func (d *disk) saveIn(ctx context.Context, base, path string, wasm, metadata []byte) (*entry, error) {
	dir, err := os.MkdirTemp(base, compilePattern)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	digest := sha256.Sum256(wasm)
	skeleton, err := module.Skeleton(wasm, digest[:])
	if err != nil {
		return nil, err
	}
	code, name, err := d.compileBoth(ctx, dir, wasm, skeleton)
	if err != nil {
		return nil, err
	}
	if err := checkSize(code, maxCode); err != nil {
		return nil, err
	}
	if err := seal(code, entryInfo{Name: name, Metadata: metadata}, skeleton); err != nil {
		return nil, err
	}
	if path == "" {
		return openEntry(code)
	}
	if err := os.Rename(code, path); err != nil {
		return nil, err
	}
	e, err := openEntry(path)
	trim(d.dir, cmp.Or(d.config.Bytes, defaultBytes)) // e is open, even if its file is removed
	return e, err
}

// compileBoth returns the file with the native code of a module, and the name
// under which an engine looks for the code of its skeleton.
func (d *disk) compileBoth(ctx context.Context, dir string, wasm, skeleton []byte) (code, name string, err error) {
	for file, content := range map[string][]byte{moduleFile: wasm, skeletonFile: skeleton} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return "", "", err
		}
	}
	if len(d.config.Compiler) == 0 {
		err = compileFiles(ctx, dir)
	} else {
		err = d.compileInProcess(ctx, dir)
	}
	if err != nil {
		return "", "", err
	}
	if code, err = outputOf(dir, moduleFile); err != nil {
		return "", "", err
	}
	skeletonCode, err := outputOf(dir, skeletonFile)
	return code, filepath.Base(skeletonCode), err
}

// maxCode bounds the native code of a module, in bytes: it is in the host's
// memory, besides all that guests may have. What compilers write becomes five
// times as large, which is 80 MiB for the largest file.
const maxCode = 128 << 20

func checkSize(path string, limit int64) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() > limit {
		return fmt.Errorf("%w: %d MiB of native code, the limit is %d MiB: build it smaller", ErrTooExpensive, info.Size()>>20, limit>>20)
	}
	return err
}
