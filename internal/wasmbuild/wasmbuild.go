//go:build unix

// Package wasmbuild compiles guests for tests, as `thole build` does.
//
// TinyGo optimises a whole program, for seconds, and many packages test with the
// same few guests. So outputs are kept in the build cache of Go, named by a digest of
// everything that they depend on. A file lock makes parallel test processes wait for
// one build instead of running their own.
//
// This process reads the sources itself, not only the compiler: so the go command
// sees that a cached test result depends on them.
package wasmbuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/repository"
	"github.com/thole-dev/thole/internal/toolchain"
)

// A Toolchain compiles a guest.
type Toolchain string

// The toolchains that plugins may be written for.
const (
	TinyGo Toolchain = "tinygo"
	Go     Toolchain = "go"
)

// Toolchains lists every toolchain, for tests that must pass with each of them.
var Toolchains = []Toolchain{TinyGo, Go}

// Build returns the module that the toolchain compiles from the main package in
// dir, see [Module]. If that is an error, the test fails. With -short it is skipped.
func Build(tb testing.TB, toolchain Toolchain, dir string) []byte {
	tb.Helper()
	if testing.Short() {
		tb.Skip("compiles a guest")
	}
	wasm, err := Module(toolchain, dir)
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}

// Module returns the module that the toolchain compiles from the main package in
// dir. A relative dir is relative to the repository's root, such as
// "plugins/podmanager"; an absolute one may be in a module of its own. It is an error
// if the build fails or the toolchain is missing.
//
// Callers share the bytes and must not change them.
func Module(toolchain Toolchain, dir string) ([]byte, error) {
	root, err := repository.Root()
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	g := guest{root: root, dir: filepath.Clean(dir), toolchain: toolchain}
	built, _ := modules.LoadOrStore(g, sync.OnceValues(g.module))
	wasm, err := built.(func() ([]byte, error))()
	if err != nil {
		return nil, fmt.Errorf("build %s with %s: %w", dir, toolchain, err)
	}
	return wasm, nil
}

// modules maps each guest of this process to a func() ([]byte, error).
var modules sync.Map

// A guest is a main package and the toolchain that compiles it.
type guest struct {
	root      string // of the repository, absolute
	dir       string // of the package, absolute
	toolchain Toolchain
}

// module returns the compiled guest. It builds it unless an output of the same
// inputs is kept.
func (g guest) module() ([]byte, error) {
	path, err := g.output()
	if err != nil {
		return nil, err
	}
	unlock, err := repository.Lock(path + ".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	now := time.Now()
	if os.Chtimes(path, now, now) != nil { // it is not there
		compiler, err := g.compiler()
		if err != nil {
			return nil, err
		}
		if err := compiler.Build(context.Background(), g.dir, path); err != nil {
			return nil, err
		}
		if err := prune(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(path)
}

// output returns the path of what is built from the inputs as they are now. It is in
// the build cache of Go: it goes with that, and every clone has the same one.
func (g guest) output() (string, error) {
	cache, err := goCache()
	if err != nil {
		return "", err
	}
	inputs, err := g.inputs()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "thole-guests", fmt.Sprintf("%s-%s-%s", filepath.Base(g.dir), g.toolchain, inputs)+".wasm"), nil
}

var goCache = sync.OnceValues(func() (string, error) {
	out, err := output(exec.Command("go", "env", "GOCACHE"))
	return strings.TrimSpace(string(out)), err
})

// keptFor is for how long an output is kept that is not used.
const keptFor = 7 * 24 * time.Hour

// prune removes outputs that were not used for long from a directory of the cache.
func prune(cache string) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > keptFor {
			err = os.RemoveAll(filepath.Join(cache, e.Name()))
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (g guest) compiler() (toolchain.Compiler, error) {
	if g.toolchain == Go {
		return toolchain.Compiler{}, nil
	}
	return toolchain.FindTinyGo("", g.root)
}

// output returns the standard output of a command. The error has its standard
// error.
func output(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w\n%s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	return out, nil
}

// inputs returns a digest of everything that the output depends on: the compiler,
// its flags, and the sources of all packages in the guest other than the
// standard library's.
func (g guest) inputs() (string, error) {
	compiler, err := g.compiler()
	if err != nil {
		return "", err
	}
	version, err := compiler.Version(context.Background())
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	_, _ = digest.Write([]byte(version))
	for _, file := range []string{"internal/toolchain/toolchain.go", ".tools/tinygo/stamp"} {
		if err := hashFile(digest, filepath.Join(g.root, file)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	packages, err := g.packages()
	if err != nil {
		return "", err
	}
	for _, p := range packages {
		if err := p.hash(digest); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(digest.Sum(nil)[:16]), nil
}

// A goPackage has fields of the output of go list.
type goPackage struct {
	ImportPath string
	Dir        string
	Standard   bool
	EmbedFiles []string
	Module     *struct {
		Path    string
		Version string
		Replace *struct{}
	}
}

// packages lists the packages of the guest, dependencies first.
func (g guest) packages() ([]goPackage, error) {
	args := []string{"list", "-deps", "-json=ImportPath,Dir,Standard,EmbedFiles,Module"}
	if g.toolchain == TinyGo {
		args = append(args, toolchain.TinyGoTags)
	}
	list := exec.Command("go", append(args, ".")...)
	list.Dir = g.dir
	list.Env = toolchain.Environment()
	out, err := output(list)
	if err != nil {
		return nil, err
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p goPackage
		if err := decoder.Decode(&p); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if !p.Standard {
			packages = append(packages, p)
		}
	}
	return packages, nil
}

// hash writes the files of the package, or only the version of its module if it is
// in the module cache. The output does not depend on where the files are.
func (p goPackage) hash(digest io.Writer) error {
	if _, err := fmt.Fprintf(digest, "package %s\n", p.ImportPath); err != nil {
		return err
	}
	if p.Module != nil && p.Module.Version != "" && p.Module.Replace == nil {
		_, err := fmt.Fprintf(digest, "module %s %s\n", p.Module.Path, p.Module.Version)
		return err
	}
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return err
	}
	files := p.EmbedFiles
	for _, e := range entries {
		if isSource(e.Name()) {
			files = append(files, e.Name())
		}
	}
	for _, name := range files {
		if err := hashFile(digest, filepath.Join(p.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func isSource(name string) bool {
	switch filepath.Ext(name) {
	case ".go":
		return !strings.HasSuffix(name, "_test.go")
	case ".s", ".S", ".c", ".h":
		return true
	}
	return false
}

// hashFile writes the name, length and content of a file.
func hashFile(digest io.Writer, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(digest, "file %s %d\n%s", filepath.Base(path), len(content), content)
	return err
}
