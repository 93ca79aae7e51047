package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
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
	e, err := openEntry(path, key)
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

// compile makes native code of a module in a new entry, and opens it. If the
// cache cannot be written, the entry is a temporary file that is removed when it
// is closed.
func (d *disk) compile(ctx context.Context, job Job, wasm []byte, t *turn) (m Module, report []byte, err error) {
	places := []place{{d.dir, d.path(job.Key)}, {os.TempDir(), ""}}
	if sharedMemory != "" && len(d.config.Compiler) > 0 {
		places = append(places, place{sharedMemory, ""})
	}
	for _, p := range places {
		m, report, err = d.compileIn(ctx, p, job, wasm, t)
		if !isWriteError(err) && !errors.Is(err, errUnsafe) || ctx.Err() != nil {
			if p.path != "" && err == nil && !d.private {
				d.config.problem.Store(nil)
			}
			break
		}
		if p.path != "" {
			problem := err
			d.config.problem.Store(&problem)
			d.config.Logger.Warn("compile cache cannot be written, compiling the plugin without it: make room, or give the right to write", "dir", d.dir, "error", err)
		}
	}
	return m, report, err
}

// errUnsafe is the error for a place where others could replace what is written.
var errUnsafe = errors.New("not a safe place for code")

// place is where an entry is made.
type place struct {
	base string // for a new directory
	path string // for the entry; "": it is removed
}

func (d *disk) compileIn(ctx context.Context, p place, job Job, wasm []byte, t *turn) (Module, []byte, error) {
	e, report, err := d.save(ctx, p, request{job.Key, job.Options, int64(len(wasm))}, wasm, t)
	if err != nil {
		return Module{}, report, err
	}
	m, err := d.open(ctx, e)
	if err != nil {
		e.close()
	}
	return m, report, err
}

// save compiles a module in a new directory, and moves the entry from there. The
// entry is verified here, whatever has written it.
func (d *disk) save(ctx context.Context, p place, r request, wasm []byte, t *turn) (e *entry, report []byte, err error) {
	if p.path == "" {
		err = checkBase(p.base)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errUnsafe, err)
	}
	dir, err := os.MkdirTemp(p.base, compilePattern)
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	if len(d.config.Compiler) == 0 {
		report, err = build(ctx, d.config.Prepare, dir, r, wasm, interruptible())
	} else {
		report, err = d.compileInProcess(ctx, dir, r, wasm, t)
	}
	if err != nil {
		return nil, report, err
	}
	made := filepath.Join(dir, entryFile)
	if e, err = openEntry(made, r.Key); err != nil || p.path == "" {
		return e, report, err
	}
	if err := os.Rename(made, p.path); err != nil {
		e.close()
		return nil, report, err
	}
	trim(d.dir, d.config.Bytes) // e is open, even if its file is removed
	return e, report, nil
}
