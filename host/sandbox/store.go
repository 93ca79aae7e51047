package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/sandbox/module"
)

// store keeps compiled modules on disk, and opens them with an engine of its
// own. The layout:
//
//	<dir>/thole-code-<engine>/<key>  entries
//	<dir>/thole-open-*               where the engine of a process looks for code
//	<dir>/thole-compile-*            where an engine that compiles writes it
type store struct {
	engine
	dir     string
	name    string // of the engine: its version and the machine
	private bool   // dir ends with the store
	staging string
	logger  hclog.Logger

	most           uint64   // bytes of code
	compiler       []string // as in [Config]
	compilerMemory uint64

	opening sync.Mutex // so that what the engine writes meanwhile is of this opening
}

// openStore opens the cache on disk; the directory was checked.
func openStore(ctx context.Context, dir string, c Config) (_ *store, err error) {
	prune(dir, time.Now())
	staging, err := os.MkdirTemp(dir, stagingPattern)
	if err != nil {
		return nil, err
	}
	s := &store{dir: dir, staging: staging, logger: c.Logger, most: cmp.Or(c.CacheBytes, defaultCacheBytes), compiler: c.Compiler, compilerMemory: c.CompilerMemory}
	if s.engine, err = newEngine(ctx, staging); err != nil {
		return nil, errors.Join(err, os.RemoveAll(staging))
	}
	if s.name, err = only(staging); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, errors.Join(s.ready(ctx), os.MkdirAll(s.path(""), 0o700))
}

func (s *store) close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	err := errors.Join(s.engine.close(ctx), os.RemoveAll(s.staging))
	if s.private {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

func (s *store) path(key string) string { return filepath.Join(s.dir, storePrefix+s.name, key) }

// find answers the entry of that key, or nil if there is none that is sound.
func (s *store) find(key string) *entry {
	path := s.path(key)
	e, err := openEntry(path)
	switch {
	case err == nil:
		now := time.Now()
		_ = os.Chtimes(path, now, now) // it is in use: see prune
		return e
	case errors.Is(err, errDamaged):
		s.logger.Warn("compile cache has a damaged entry, compiling the plugin anew", "path", path)
	case !errors.Is(err, fs.ErrNotExist):
		s.logger.Warn("compile cache cannot be read, compiling the plugin anew: give the right to read it", "path", path, "error", err)
	}
	return nil
}

// errNotCached says that an entry does not fit this engine on this machine.
var errNotCached = errors.New("the engine has no code for it")

// open makes the code of a verified entry executable. Only the skeleton is
// decoded and validated again: the bodies were when the code was made. Nothing
// is written to open an entry for the second time.
func (s *store) open(ctx context.Context, e *entry) (native, error) {
	skeleton, err := e.skeleton()
	if err != nil {
		return native{}, err
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if err := s.link(e); err != nil {
		return native{}, err
	}
	compiled, err := s.runtime.CompileModule(ctx, skeleton)
	if err != nil {
		return native{}, err
	}
	if s.strayed() {
		return native{}, errors.Join(errNotCached, compiled.Close(ctx))
	}
	return native{s.runtime, compiled, e}, nil
}

// reopen makes the code of an entry executable that may have been damaged
// since it was opened first.
func (s *store) reopen(ctx context.Context, e *entry) (native, error) {
	if _, err := e.verify(); err != nil {
		return native{}, err
	}
	return s.open(ctx, e)
}

// link lets the engine find an entry: by a link to the open file, which is the
// one that was verified, also if it has been removed or replaced meanwhile.
func (s *store) link(e *entry) error {
	dir := filepath.Join(s.staging, s.name)
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
	e.unlink = func() { s.unlink(path, target) }
	return os.Symlink(target, path)
}

// unlink removes a link, unless it is another entry's by now.
func (s *store) unlink(path, target string) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if have, err := os.Readlink(path); err == nil && have == target {
		_ = os.Remove(path)
	}
}

// strayed tells whether the engine has written code of its own: it did not
// find an entry's, and has compiled the skeleton, whose functions trap.
func (s *store) strayed() (found bool) {
	dir := filepath.Join(s.staging, s.name)
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
func (s *store) compile(ctx context.Context, key string, wasm []byte, o outline) (native, error) {
	e, err := s.save(ctx, key, wasm, o)
	if err != nil {
		return native{}, err
	}
	n, err := s.open(ctx, e)
	if err != nil {
		e.close()
	}
	return n, err
}

// save compiles a module into a new entry. If the cache cannot be written it
// is a temporary file that ends when it is closed.
func (s *store) save(ctx context.Context, key string, wasm []byte, o outline) (*entry, error) {
	e, err := s.saveIn(ctx, s.dir, s.path(key), wasm, o)
	if !unwritable(err) {
		return e, err
	}
	s.logger.Warn("compile cache cannot be used, the plugin is compiled without it: make room, or give the right to write", "dir", s.dir, "error", err)
	return s.saveIn(ctx, os.TempDir(), "", wasm, o)
}

// saveIn compiles a module in a new directory under base, and moves the entry
// to a path if there is one.
func (s *store) saveIn(ctx context.Context, base, path string, wasm []byte, o outline) (*entry, error) {
	dir, err := os.MkdirTemp(base, compilePattern)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	digest := digestOf(wasm)
	skeleton, err := module.Skeleton(wasm, digest[:])
	if err != nil {
		return nil, err
	}
	code, name, err := s.compileBoth(ctx, dir, wasm, skeleton)
	if err != nil {
		return nil, err
	}
	if err := checkSize(code, mostCode); err != nil {
		return nil, err
	}
	if err := sealFile(code, facts{Name: name, Outline: o}, skeleton); err != nil {
		return nil, err
	}
	if path == "" {
		return openEntry(code)
	}
	if err := os.Rename(code, path); err != nil {
		return nil, err
	}
	e, err := openEntry(path)
	trim(s.dir, s.most) // e is open, whatever goes
	return e, err
}

// compileBoth answers the file with the native code of a module, and the name
// under which an engine looks for that of its skeleton.
func (s *store) compileBoth(ctx context.Context, dir string, wasm, skeleton []byte) (code, name string, err error) {
	for file, content := range map[string][]byte{moduleFile: wasm, skeletonFile: skeleton} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return "", "", err
		}
	}
	if len(s.compiler) == 0 {
		err = compileFiles(ctx, dir)
	} else {
		err = s.outside(ctx, dir)
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
		return fmt.Errorf("%w: %d MiB of native code, the limit is %d MiB: build it smaller", errHeavy, info.Size()>>20, most>>20)
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
	e, err := newEngine(ctx, dir)
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
