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

// listed is a package as the go command tells of it.
type listed struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	CgoFiles   []string
	Export     string // the file with what it exports, compiled
	ImportMap  map[string]string
	DepOnly    bool
	Module     *struct{ Main bool }
	Error      *struct{ Pos, Err string }
}

// broken is why the go command cannot make sense of the package.
func (p *listed) broken() error {
	text := p.Error.Err
	if p.Error.Pos != "" {
		text = p.Error.Pos + ": " + text
	}
	if strings.Contains(p.Error.Pos, FileName) {
		text += "\ndelete the file, and run `thole generate` again"
	}
	return errors.New(text)
}

// ours says whether the package belongs to the author's module.
func (p *listed) ours() bool { return p.Module != nil && p.Module.Main }

func (l *loader) isOurs(p *types.Package) bool {
	known := l.list[p.Path()]
	return known != nil && known.ours()
}

// loader reads packages. Those of the author's module are read from their
// sources, as what was generated into them may be stale or absent; of all
// others the compiler knows what they export.
type loader struct {
	Place
	fset   *token.FileSet
	list   map[string]*listed
	ours   map[string]*types.Package // with what is generated into them
	others types.Importer
}

// load lists the packages of the patterns, dependencies first.
func load(ctx context.Context, at Place, patterns []string) (l *loader, wanted []*listed, err error) {
	l = &loader{Place: at, fset: token.NewFileSet(), list: map[string]*listed{}, ours: map[string]*types.Package{}}
	l.others = importer.ForCompiler(l.fset, "gc", l.open)
	all, err := golist(ctx, at, slices.Concat([]string{"-deps", "--"}, patterns, []string{codecPath}))
	if err != nil {
		return nil, nil, err
	}
	var others []string
	for _, p := range all {
		l.list[p.ImportPath] = p
		wants := !p.DepOnly && p.ImportPath != codecPath
		switch {
		case !p.DepOnly && p.Error != nil:
			return nil, nil, p.broken()
		case wants:
			wanted = append(wanted, p)
		case !p.ours() && p.Error == nil && p.ImportPath != "unsafe":
			others = append(others, p.ImportPath)
		}
	}
	return l, wanted, l.export(ctx, others)
}

// export finds out where the compiler's knowledge of the packages is.
func (l *loader) export(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	exported, err := golist(ctx, l.Place, append([]string{"-export", "--"}, paths...))
	for _, p := range exported {
		l.list[p.ImportPath].Export = p.Export
	}
	return err
}

func (l *loader) open(path string) (io.ReadCloser, error) {
	if p := l.list[path]; p != nil && p.Export != "" {
		return os.Open(p.Export)
	}
	return nil, fmt.Errorf("package %s is not compiled: run `go build` to see why", path)
}

func golist(ctx context.Context, at Place, args []string) ([]*listed, error) {
	fields := "-json=ImportPath,Name,Dir,GoFiles,CgoFiles,Export,ImportMap,DepOnly,Module,Error"
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-e", fields}, args...)...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = at.Dir, &out, &said
	if at.Temp != "" {
		cmd.Env = append(cmd.Environ(), "GOTMPDIR="+at.Temp)
	}
	if err := cmd.Run(); errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("list packages: thole generate needs the go command: %w", err)
	} else if err != nil {
		return nil, fmt.Errorf("list packages: %w\n%s", err, bytes.TrimSpace(said.Bytes()))
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

// parse reads the files of a package but the generated one.
func (l *loader) parse(p *listed) ([]*ast.File, error) {
	var files []*ast.File
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		if name == FileName {
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

func (l *loader) parseFile(name string, content any) (*ast.File, error) {
	return parser.ParseFile(l.fset, name, content, parser.ParseComments|parser.SkipObjectResolution)
}

// checked is a package with the types of its expressions.
type checked struct {
	*listed
	files []*ast.File
	types *types.Package
	info  *types.Info
	errs  []error
}

// check finds the types in a package's files. What does not fit is noted: the
// code may call what is generated later.
func (l *loader) check(p *listed, files []*ast.File) *checked {
	c := &checked{listed: p, files: files, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Instances: map[*ast.Ident]types.Instance{},
		Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}}
	config := types.Config{
		Importer:    imports{l, p.ImportMap},
		FakeImportC: true,
		Error:       func(err error) { c.errs = append(c.errs, err) },
	}
	c.types, _ = config.Check(p.ImportPath, l.fset, files, c.info)
	return c
}

// imports resolves the imports of one package.
type imports struct {
	*loader
	vendored map[string]string
}

func (i imports) Import(path string) (*types.Package, error) {
	if mapped, ok := i.vendored[path]; ok {
		path = mapped
	}
	p := i.list[path]
	switch {
	case path == "unsafe":
		return types.Unsafe, nil
	case p == nil:
		return nil, fmt.Errorf("package %s is not known: run `go build` to see why", path)
	case !p.ours():
		return i.others.Import(path)
	case i.ours[path] != nil:
		return i.ours[path], nil
	}
	return i.dependency(p)
}

// dependency reads a package of the author's module with its generated file.
func (i imports) dependency(p *listed) (*types.Package, error) {
	files, err := i.parse(p)
	if err != nil {
		return nil, err
	}
	if generated, err := i.parseFile(filepath.Join(p.Dir, FileName), nil); err == nil {
		files = append(files, generated)
	}
	config := types.Config{
		Importer: imports{i.loader, p.ImportMap}, FakeImportC: true, IgnoreFuncBodies: true,
		Error: func(error) {}, // those that matter are found again where the package is used
	}
	i.ours[p.ImportPath], _ = config.Check(p.ImportPath, i.fset, files, nil)
	return i.ours[p.ImportPath], nil
}

// at renders a position, with the file relative to the working directory if it
// is below.
func (l *loader) at(pos token.Pos) string {
	p := l.fset.Position(pos)
	if rel, err := filepath.Rel(l.Dir, p.Filename); err == nil && !strings.HasPrefix(rel, "..") {
		p.Filename = rel
	}
	return p.String()
}
