package devloop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// sources are the places that a plugin is built from, as far as somebody may
// edit them: the main module, those of a workspace, and replaced ones.
type sources struct {
	// folders are the packages' directories, of which Go files count, and those
	// with embedded files, of which everything does.
	folders map[string]folder
	// files count wherever they are, also while they are not there: go.mod and
	// the like.
	files []string
}

type folder struct{ everything bool }

// listed is what the go command says of a package.
type listed struct {
	Dir        string
	Name       string
	Standard   bool
	EmbedFiles []string
	Module     *struct {
		GoMod   string
		Version string
		Replace *struct{ Version string }
	}
	Error *struct{ Err string }
}

// local says whether the package is not from the module cache.
func (l *listed) local() bool {
	if l.Standard || l.Dir == "" || l.Module == nil {
		return false
	}
	return l.Module.Version == "" || l.Module.Replace != nil && l.Module.Replace.Version == ""
}

// listPackages asks the go command for the package in dir, the last, and all
// that it is built from.
func listPackages(ctx context.Context, dir string) ([]listed, error) {
	out, err := goCommand(ctx, dir, "list", "-e", "-deps", "-json=Dir,Name,Standard,EmbedFiles,Module,Error", compileTags, ".")
	if err != nil {
		return nil, err
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// goCommand returns what the go command says for the target of plugins.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append((toolchain{}).environment(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case err == nil, ctx.Err() != nil:
		return out, ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("building a plugin needs the go command: install Go (https://go.dev/doc/install), or put it in PATH")
	}
	return nil, fmt.Errorf("go %s: %s", args[0], strings.TrimPrefix(strings.TrimSpace(stderr.String()), "go: "))
}

// checkPackage says what is wrong with a directory that no edit of a file in
// it would mend, as far as it can be known.
func checkPackage(ctx context.Context, dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("%w: name the directory of a plugin's main package", err)
	case !info.IsDir():
		return fmt.Errorf("%s is a file: name the directory of a plugin's main package", dir)
	}
	mod, err := goCommand(ctx, dir, "env", "GOMOD")
	if err != nil {
		return err
	}
	if path := strings.TrimSpace(string(mod)); path == "" || path == os.DevNull {
		return fmt.Errorf("%s is in no Go module: run `go mod init NAME` there, and see README.md, \"Your first plugin\", for how it finds the SDK", dir)
	}
	packages, err := listPackages(ctx, dir)
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		return fmt.Errorf("%s has no package", dir)
	}
	switch main := packages[len(packages)-1]; {
	case main.Name == "main":
		return nil
	case main.Name != "":
		return fmt.Errorf("%s holds package %s: a plugin is built from a package main", dir, main.Name)
	case main.Error != nil && noGoFiles(dir):
		return fmt.Errorf("%s has no Go files: name the directory of a plugin's main package", dir)
	}
	return nil // it does not compile: the build says why
}

func noGoFiles(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return filepath.Ext(e.Name()) == ".go" })
}

// findSources lists the sources of the package in dir. A package that does not
// compile has those that can be told.
func findSources(ctx context.Context, dir string) (sources, error) {
	s := sources{folders: map[string]folder{dir: {}}}
	packages, err := listPackages(ctx, dir)
	if err != nil {
		return s, err
	}
	for i := range packages {
		if packages[i].local() {
			s.add(&packages[i])
		}
	}
	work, err := goCommand(ctx, dir, "env", "GOWORK")
	if path := strings.TrimSpace(string(work)); path != "" && path != "off" {
		s.files = append(s.files, path, path+".sum")
	}
	slices.Sort(s.files)
	s.files = slices.Compact(s.files)
	return s, err
}

func (s *sources) add(p *listed) {
	s.folders[p.Dir] = folder{everything: s.folders[p.Dir].everything}
	for _, file := range p.EmbedFiles {
		s.folders[filepath.Dir(filepath.Join(p.Dir, file))] = folder{everything: true}
	}
	if p.Module.GoMod != "" {
		s.files = append(s.files, p.Module.GoMod, strings.TrimSuffix(p.Module.GoMod, ".mod")+".sum")
	}
}
