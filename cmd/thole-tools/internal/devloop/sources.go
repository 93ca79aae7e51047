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
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/thole-dev/thole/internal/toolchain"
	"github.com/thole-dev/thole/sdk/generate"
)

// sources are the files that a plugin is built from and that somebody may edit:
// those of the main module, of the modules of a workspace, and of replaced
// modules.
type sources struct {
	// folders are the directories of packages, in which Go files count, and those
	// of embedded files, in which every file counts.
	folders map[string]folder
	// files are single files, such as go.mod. They count also while they do not
	// exist.
	files []string
	// generated are the paths to which `thole generate` writes for the packages of
	// the main module.
	generated []string
}

type folder struct{ everyFile bool }

// goPackage is a package as `go list` describes it.
type goPackage struct {
	Dir        string
	Name       string
	Standard   bool
	EmbedFiles []string
	Module     *struct {
		GoMod   string
		Main    bool
		Version string
		Replace *struct{ Version string }
	}
	Error *struct{ Err string }
}

// editable reports whether the package is not in the module cache.
func (p *goPackage) editable() bool {
	if p.Standard || p.Dir == "" || p.Module == nil {
		return false
	}
	return p.Module.Version == "" || p.Module.Replace != nil && p.Module.Replace.Version == ""
}

// listPackages returns the package in dir, as the last one, and all packages that
// it is built from.
func listPackages(ctx context.Context, dir, tags string) ([]goPackage, error) {
	out, err := goCommand(ctx, dir, "list", "-e", "-deps", "-json=Dir,Name,Standard,EmbedFiles,Module,Error", tags, ".")
	if err != nil {
		return nil, err
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// goCommand runs the go command for the target of plugins and returns its output.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = toolchain.Environment()
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

// checkPackage returns what is wrong with a directory that no edit of a file in it
// can correct.
func checkPackage(ctx context.Context, dir, tags string) error {
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
		return fmt.Errorf("%s is in no Go module: run `go mod init NAME` there, and see docs/tutorial.md for how it finds the SDK", dir)
	}
	packages, err := listPackages(ctx, dir, tags)
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
	return nil // it does not compile, and the build shows why
}

func noGoFiles(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return filepath.Ext(e.Name()) == ".go" })
}

// findSources returns the sources of the package in dir; of a package that does not
// compile, those that are known.
func findSources(ctx context.Context, dir, tags string) (sources, error) {
	s := sources{folders: map[string]folder{dir: {}}, generated: []string{filepath.Join(dir, generate.FileName)}}
	packages, err := listPackages(ctx, dir, tags)
	if err != nil {
		return s, err
	}
	for i := range packages {
		if packages[i].editable() {
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

func (s *sources) add(p *goPackage) {
	s.folders[p.Dir] = folder{everyFile: s.folders[p.Dir].everyFile}
	for _, file := range p.EmbedFiles {
		s.folders[filepath.Dir(filepath.Join(p.Dir, file))] = folder{everyFile: true}
	}
	if p.Module.Main {
		s.generated = append(s.generated, filepath.Join(p.Dir, generate.FileName))
	}
	if p.Module.GoMod != "" {
		s.files = append(s.files, p.Module.GoMod, strings.TrimSuffix(p.Module.GoMod, ".mod")+".sum")
	}
}

// fileState is the state of a file; the zero value is that of a file that does not
// exist.
type fileState struct {
	size    int64
	modTime time.Time
	mode    os.FileMode
}

// fileStates are the states of files, by path.
type fileStates map[string]fileState

// states reads the states of all files that count.
func (s sources) states() fileStates {
	out := fileStates{}
	for dir, of := range s.folders {
		entries, _ := os.ReadDir(dir) // a directory that was removed has no files, which is a change
		for _, e := range entries {
			if counts(e.Name(), of.everyFile) {
				out.add(filepath.Join(dir, e.Name()))
			}
		}
	}
	for _, path := range s.files {
		out.add(path)
	}
	return out
}

func (s fileStates) add(path string) {
	info, err := os.Stat(path)
	if err != nil {
		return
	}
	if filepath.Base(path) == generate.FileName {
		s[path] = fileState{size: 1} // the build writes it: only its existence counts
		return
	}
	if info.IsDir() {
		s[path] = fileState{mode: info.Mode()} // its files have states of their own
		return
	}
	s[path] = fileState{info.Size(), info.ModTime(), info.Mode()}
}

// counts reports whether a file in the directory of a package is part of the build.
func counts(name string, everyFile bool) bool {
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasSuffix(name, "_test.go") {
		return false
	}
	switch filepath.Ext(name) {
	case ".go", ".s", ".S", ".c", ".h":
		return true
	}
	return everyFile
}

// since returns the files whose states have changed, and when the latest of them
// was written; zero if that is not known.
func (s fileStates) since(before fileStates) (changed []string, last time.Time) {
	for path, now := range s {
		if was, known := before[path]; !known || !was.modTime.Equal(now.modTime) || was.size != now.size || was.mode != now.mode {
			changed = append(changed, path)
			if now.modTime.After(last) {
				last = now.modTime
			}
		}
	}
	for path := range before {
		if _, there := s[path]; !there {
			changed = append(changed, path)
		}
	}
	slices.Sort(changed)
	return changed, last
}

// A notification of the file system means that all states are read again, after a
// quiet time. They are also read periodically, for file systems without
// notifications and for lost ones.
const (
	quietTime  = 50 * time.Millisecond // an editor writes a file in several steps
	scanPeriod = 2 * time.Second
)

// watcher reports that something may have changed in some directories.
type watcher struct {
	files   *fsnotify.Watcher // nil where the system has none: only the periodic scan is left
	watched map[string]bool
}

func newWatcher() *watcher {
	files, err := fsnotify.NewWatcher()
	if err != nil {
		files = nil
	}
	return &watcher{files: files, watched: map[string]bool{}}
}

// follow watches these directories and no others. A directory that cannot be
// watched is left to the periodic scan.
func (w *watcher) follow(dirs map[string]bool) {
	if w.files == nil {
		return
	}
	for dir := range w.watched {
		if !dirs[dir] {
			_ = w.files.Remove(dir) // fails if it was removed
			delete(w.watched, dir)
		}
	}
	for dir := range dirs {
		// Every time, since the directory may have been removed and made again.
		if w.files.Add(dir) == nil {
			w.watched[dir] = true
		}
	}
}

// run calls changed, which must not block, until ctx is done.
func (w *watcher) run(ctx context.Context, changed func()) {
	tick := time.NewTicker(scanPeriod)
	defer tick.Stop()
	var events chan fsnotify.Event
	var errs chan error
	if w.files != nil {
		events, errs = w.files.Events, w.files.Errors
		defer w.files.Close()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
		case _, ok := <-errs: // such as an overflow
			if !ok {
				errs = nil
			}
		case <-tick.C:
		}
		changed()
	}
}

// position is a file and line at the beginning of a line of a compiler.
var position = regexp.MustCompile(`(?m)^([^\s:#][^:\n]*):(\d+)(:\d+)?:`)

// relocate rewrites the positions in the output of a compiler, which are relative
// to dir, so that they are relative to cwd.
func relocate(text, dir, cwd string) string {
	return position.ReplaceAllStringFunc(text, func(found string) string {
		file, rest, _ := strings.Cut(found, ":")
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		return shortPath(file, cwd) + ":" + rest
	})
}

// shortPath returns the shorter one of a path and its form relative to cwd.
func shortPath(path, cwd string) string {
	rel, err := filepath.Rel(cwd, path)
	if err != nil || len(rel) > len(path) {
		return path
	}
	return rel
}

// onlyIn reports whether the output of a compiler has positions, all of them in the
// file with that base name.
func onlyIn(text, base string) bool {
	positions := position.FindAllStringSubmatch(text, -1)
	for _, p := range positions {
		if filepath.Base(p[1]) != base {
			return false
		}
	}
	return len(positions) > 0
}
