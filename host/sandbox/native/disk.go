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
	private bool   // dir ends with it
	staging string

	opening sync.Mutex // so that what the engine writes meanwhile is of this opening
}

// openDisk opens the cache on disk; the directory was checked.
func openDisk(ctx context.Context, dir string, c Config) (_ *disk, err error) {
	prune(dir, time.Now())
	staging, err := os.MkdirTemp(dir, stagingPattern)
	if err != nil {
		return nil, err
	}
	d := &disk{config: c, dir: dir, staging: staging}
	if d.engine, err = newEngine(ctx, staging, nil); err != nil {
		return nil, errors.Join(err, os.RemoveAll(staging))
	}
	if d.name, err = only(staging); err != nil {
		return nil, errors.Join(err, d.close(ctx))
	}
	if err := errors.Join(d.offer(ctx, c.Offer), os.MkdirAll(d.path(""), 0o700)); err != nil {
		return nil, errors.Join(err, d.close(ctx))
	}
	return d, nil
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

// find answers the entry of a key, if there is one that is sound.
func (d *disk) find(key string) (*entry, error) {
	path := d.path(key)
	e, err := openEntry(path)
	if err != nil {
		return nil, fmt.Errorf("open entry %s: %w", path, err)
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // it is in use: see prune
	return e, nil
}

// errNotCached says that an entry does not fit this engine on this machine.
var errNotCached = errors.New("the engine has no code for it")

// open makes the code of a verified entry executable. Only the skeleton is
// decoded and validated again: the bodies were when the code was made. Nothing
// is written to open an entry for the second time.
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
	if d.strayed() {
		return Module{}, errors.Join(errNotCached, compiled.Close(ctx))
	}
	return Module{d.runtime, compiled, e}, nil
}

// reopen makes the code of an entry executable that may have been damaged
// since it was opened first.
func (d *disk) reopen(ctx context.Context, e *entry) (Module, error) {
	if _, err := e.verify(); err != nil {
		return Module{}, err
	}
	return d.open(ctx, e)
}

// link lets the engine find an entry: by a link to the open file, which is the
// one that was verified, also if it has been removed or replaced meanwhile.
func (d *disk) link(e *entry) error {
	dir := filepath.Join(d.staging, d.name)
	path := filepath.Join(dir, e.facts.Name)
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

// strayed tells whether the engine has written code of its own: it did not
// find an entry's, and has compiled the skeleton, whose functions trap.
func (d *disk) strayed() (found bool) {
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
func (d *disk) compile(ctx context.Context, key string, wasm, note []byte) (Module, error) {
	e, err := d.save(ctx, key, wasm, note)
	if err != nil {
		return Module{}, err
	}
	n, err := d.open(ctx, e)
	if err != nil {
		e.close()
	}
	return n, err
}

// save compiles a module into a new entry. If the cache cannot be written it
// is a temporary file that ends when it is closed.
func (d *disk) save(ctx context.Context, key string, wasm, note []byte) (*entry, error) {
	e, err := d.saveIn(ctx, d.dir, d.path(key), wasm, note)
	if !unwritable(err) {
		return e, err
	}
	d.config.Logger.Warn("compile cache cannot be used, the plugin is compiled without it: make room, or give the right to write", "dir", d.dir, "error", err)
	return d.saveIn(ctx, os.TempDir(), "", wasm, note)
}

// saveIn compiles a module in a new directory under base, and moves the entry
// to a path if there is one.
func (d *disk) saveIn(ctx context.Context, base, path string, wasm, note []byte) (*entry, error) {
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
	if err := checkSize(code, mostCode); err != nil {
		return nil, err
	}
	if err := sealFile(code, facts{Name: name, Note: note}, skeleton); err != nil {
		return nil, err
	}
	if path == "" {
		return openEntry(code)
	}
	if err := os.Rename(code, path); err != nil {
		return nil, err
	}
	e, err := openEntry(path)
	trim(d.dir, cmp.Or(d.config.Bytes, defaultBytes)) // e is open, whatever goes
	return e, err
}

// compileBoth answers the file with the native code of a module, and the name
// under which an engine looks for that of its skeleton.
func (d *disk) compileBoth(ctx context.Context, dir string, wasm, skeleton []byte) (code, name string, err error) {
	for file, content := range map[string][]byte{moduleFile: wasm, skeletonFile: skeleton} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return "", "", err
		}
	}
	if len(d.config.Compiler) == 0 {
		err = compileFiles(ctx, dir)
	} else {
		err = d.outside(ctx, dir)
	}
	if err != nil {
		return "", "", err
	}
	if code, err = outputOf(dir, moduleFile); err != nil {
		return "", "", err
	}
	probe, err := outputOf(dir, skeletonFile)
	return code, filepath.Base(probe), err
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

// mostCode bounds the native code of a module, in bytes: the host has it in
// memory beside all that guests may have. What compilers write becomes five
// times as large, which for the largest file is 80 MiB.
const mostCode = 128 << 20

func checkSize(path string, most int64) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() > most {
		return fmt.Errorf("%w: %d MiB of native code, the limit is %d MiB: build it smaller", ErrHeavy, info.Size()>>20, most>>20)
	}
	return err
}

// outputOf is the file that [compileFiles] has made of a module: the only one
// in the only directory of another one.
func outputOf(dir, name string) (string, error) {
	dir = filepath.Join(dir, name+outputSuffix)
	engine, err := only(dir)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, engine)
	file, err := only(dir)
	return filepath.Join(dir, file), err
}

// compileInto makes native code of a module in a directory, by an engine of
// its own.
func compileInto(ctx context.Context, dir string, wasm []byte) error {
	e, err := newEngine(ctx, dir, nil)
	if err != nil {
		return err
	}
	_, err = compileModule(ctx, e.runtime, wasm)
	return errors.Join(err, e.close(context.WithoutCancel(ctx)))
}

// only answers the name of the only entry of a directory.
func only(dir string) (string, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(all) != 1 {
		return "", fmt.Errorf("%s has %d entries, want one", dir, len(all))
	}
	return all[0].Name(), nil
}
