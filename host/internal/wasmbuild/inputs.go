//go:build unix

package wasmbuild

import (
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
)

// name is a file name that tells guests apart: readable, and with a digest of
// the path, for two folders may share a base name.
func (g guest) name() string {
	sum := sha256.Sum256([]byte(g.dir))
	return fmt.Sprintf("%s-%s-%s", filepath.Base(g.dir), g.toolchain, hex.EncodeToString(sum[:4]))
}

// cache is the folder for outputs. That of a guest outside the repository is the
// guest's own, to go when a test's temporary folder goes.
func (g guest) cache() string {
	if rel, err := filepath.Rel(g.root, g.dir); err != nil || !filepath.IsLocal(rel) {
		return filepath.Join(g.dir, ".wasm")
	}
	return filepath.Join(g.root, ".tools", "wasm")
}

// inputs is a digest of all that decides the output: the compiler, the script,
// and the sources of every package in the guest but the standard library's.
func (g guest) inputs() ([]byte, error) {
	compiler, err := g.script("-version")
	if err != nil {
		return nil, err
	}
	digest := sha256.New()
	_, _ = digest.Write(compiler)
	for _, file := range []string{scriptPath, ".ci/tools/lib.sh", ".tools/tinygo/stamp"} {
		if err := hashFile(digest, filepath.Join(g.root, file)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	packages, err := g.packages()
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		if err := p.hash(digest); err != nil {
			return nil, err
		}
	}
	return fmt.Appendf(nil, "%x\n", digest.Sum(nil)), nil
}

// A goPackage is what the go command says of a package.
type goPackage struct {
	ImportPath string
	Dir        string
	Standard   bool
	EmbedFiles []string
	Module     *struct {
		Version string
		Replace *struct{}
	}
}

// packages lists the packages of the guest, dependencies first.
func (g guest) packages() ([]goPackage, error) {
	args := []string{"list", "-deps", "-json=ImportPath,Dir,Standard,EmbedFiles,Module"}
	if g.toolchain == TinyGo {
		args = append(args, "-tags=tinygo,tinygo.wasm,purego,gc.leaking,scheduler.none")
	}
	list := exec.Command("go", append(args, ".")...)
	list.Dir = g.dir
	list.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	out, err := output(list)
	if err != nil {
		return nil, err
	}
	var packages []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if !p.Standard {
			packages = append(packages, p)
		}
	}
}

// hash writes the package's files, or only its path when it comes from the
// module cache, where the version is part of it.
func (p goPackage) hash(digest io.Writer) error {
	if _, err := fmt.Fprintf(digest, "package %s %s\n", p.ImportPath, p.Dir); err != nil {
		return err
	}
	if p.Module != nil && p.Module.Version != "" && p.Module.Replace == nil {
		return nil
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

// hashFile writes a file's name, length and content.
func hashFile(digest io.Writer, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(digest, "file %s %d\n%s", filepath.Base(path), len(content), content)
	return err
}
