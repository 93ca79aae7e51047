package generate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// listed is a package in the output of `go list -json`.
type listed struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	CgoFiles   []string
	Imports    []string
	Deps       []string // of Imports too
	Export     string   // the file with the compiler's export data
	DepOnly    bool
	Module     *struct{ Main bool }
	Error      *struct{ Pos, Err string } // Pos is file:line:column
}

// inModule reports whether the package belongs to the author's module.
func (p *listed) inModule() bool { return p.Module != nil && p.Module.Main }

// fromSource reports whether the package is read from source: those of the author's module,
// and those that may pass something to the SDK.
func (p *listed) fromSource() bool { return p.inModule() || slices.Contains(p.Deps, sdkPath) }

// isInModule reports whether the package belongs to the author's module.
func (l *loader) isInModule(p *types.Package) bool {
	known := l.list[p.Path()]
	return known != nil && known.inModule()
}

// loader loads packages. Those of the author's module are read from source, because
// their generated files may be stale or absent, and so are those that depend on the SDK.
// For all others it uses the export data of the compiler.
type loader struct {
	Place
	fset    *token.FileSet
	info    *types.Info // of all expressions in packages from source
	order   []*listed   // dependencies first
	list    map[string]*listed
	checked map[string]*checked // packages from source, with their generated files
	others  types.Importer
}

// load lists the packages that match the patterns, dependencies first.
func load(ctx context.Context, at Place, patterns []string) (l *loader, matched []*listed, err error) {
	l = &loader{Place: at, fset: token.NewFileSet(), list: map[string]*listed{}, checked: map[string]*checked{}}
	l.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Instances: map[*ast.Ident]types.Instance{},
		Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	l.others = importer.ForCompiler(l.fset, "gc", l.openExport)
	all, err := golist(ctx, at, slices.Concat([]string{"-deps", "--"}, patterns, []string{codecPath}))
	if err != nil {
		return nil, nil, err
	}
	l.order = all
	var others []string
	for _, p := range all {
		l.list[p.ImportPath] = p
		matches := !p.DepOnly && p.ImportPath != codecPath
		switch {
		case !p.DepOnly && p.Error != nil:
			return nil, nil, l.packageError(p)
		case matches:
			matched = append(matched, p)
		case !p.fromSource() && p.Error == nil && p.ImportPath != "unsafe":
			others = append(others, p.ImportPath)
		}
	}
	return l, matched, l.listExports(ctx, others)
}

// packageError returns the error of the go command for a package, with what to do
// about it in two cases. The go command has only a text for each error, so they are
// recognized by the file in the position and by the directory.
func (l *loader) packageError(p *listed) error {
	text := p.Error.Err
	if p.Error.Pos != "" {
		text = p.Error.Pos + ": " + text
	}
	if strings.HasPrefix(filepath.Base(p.Error.Pos), FileName+":") {
		text += "\ndelete the file, and run `thole generate` again"
	} else if info, err := os.Stat(filepath.Join(l.Dir, p.ImportPath)); err == nil && info.IsDir() {
		text += ": write the directory as ./" + p.ImportPath
	}
	return errors.New(text)
}

// listExports sets the files with the export data of packages.
func (l *loader) listExports(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	exported, err := golist(ctx, l.Place, append([]string{"-export", "--"}, paths...))
	for _, p := range exported {
		l.list[p.ImportPath].Export = p.Export
	}
	return err
}

// openExport opens the export data of a package, for the importer of the compiler.
func (l *loader) openExport(path string) (io.ReadCloser, error) {
	if p := l.list[path]; p != nil && p.Export != "" {
		return os.Open(p.Export)
	}
	return nil, fmt.Errorf("package %s is not compiled: run `go build` to see why", path)
}

// golist runs `go list -e -json`, which reports errors of packages in its output.
func golist(ctx context.Context, at Place, args []string) ([]*listed, error) {
	fields := "-json=ImportPath,Name,Dir,GoFiles,CgoFiles,Imports,Deps,Export,DepOnly,Module,Error"
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-e", fields}, args...)...)
	var out, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = at.Dir, &out, &stderr
	if at.Temp != "" {
		cmd.Env = append(cmd.Environ(), "GOTMPDIR="+at.Temp)
	}
	if err := cmd.Run(); errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("list packages: thole generate needs the go command: %w", err)
	} else if err != nil {
		return nil, fmt.Errorf("list packages: %w\n%s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	var all []*listed
	for decoder := json.NewDecoder(&out); ; {
		p := &listed{}
		if err := decoder.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		all = append(all, p)
	}
}

// parse reads the source files of a package, without a generated one of the author's module.
func (l *loader) parse(p *listed) ([]*ast.File, error) {
	var files []*ast.File
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		if name == FileName && p.inModule() {
			continue
		}
		file, err := l.parseFile(filepath.Join(p.Dir, name), nil)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// parseGenerated reads the generated file of a package.
func (l *loader) parseGenerated(p *listed) (*ast.File, error) {
	return l.parseFile(filepath.Join(p.Dir, FileName), nil)
}

func (l *loader) parseFile(name string, content any) (*ast.File, error) {
	return parser.ParseFile(l.fset, name, content, parser.ParseComments|parser.SkipObjectResolution)
}

// checked is a package with the types of its expressions.
type checked struct {
	*listed
	files []*ast.File
	types *types.Package
	info  *types.Info // that of the loader
	errs  []error
}

// check type-checks a package. Errors are recorded and not returned, because the code
// may call methods that are generated later.
func (l *loader) check(p *listed, files []*ast.File) *checked {
	c := &checked{listed: p, files: files, info: l.info}
	config := types.Config{
		Importer:    l,
		FakeImportC: true,
		Error:       func(err error) { c.errs = append(c.errs, err) },
	}
	c.types, _ = config.Check(p.ImportPath, l.fset, files, c.info)
	return c
}

// Import implements [types.Importer].
func (l *loader) Import(path string) (*types.Package, error) {
	p := l.list[path]
	switch {
	case path == "unsafe":
		return types.Unsafe, nil
	case p == nil:
		return nil, fmt.Errorf("package %s is not known: run `go build` to see why", path)
	case !p.fromSource():
		return l.others.Import(path)
	case l.checked[path] == nil:
		if err := l.importSource(p); err != nil {
			return nil, err
		}
	}
	return l.checked[path].types, nil
}

// importSource type-checks a package from source, with its generated file if there is one
// that parses. Errors that matter are found again where the package is used.
func (l *loader) importSource(p *listed) error {
	files, err := l.parse(p)
	if err != nil {
		return err
	}
	if p.inModule() {
		if generated, err := l.parseGenerated(p); err == nil {
			files = append(files, generated)
		}
	}
	l.checked[p.ImportPath] = l.check(p, files)
	return nil
}

// position renders a position. A file in the working directory has a relative path.
func (l *loader) position(pos token.Pos) string {
	p := l.fset.Position(pos)
	if rel, err := filepath.Rel(l.Dir, p.Filename); err == nil && !strings.HasPrefix(rel, "..") {
		p.Filename = rel
	}
	return p.String()
}
