package generate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// FileName is the name of the generated file beside an author's types.
const FileName = "zz_generated.thole.go"

// File is a file as it should be.
type File struct {
	Path    string // absolute
	Content []byte // nil if the file should not be there
}

// Place is where the go command is run, which must be there.
type Place struct {
	Dir string // from which it takes patterns
	// Temp is an existing directory for its temporary files, which stay there
	// if it is killed because the context has ended. "" is its own choice.
	Temp string
}

// Packages generates the files of the packages that the patterns name. Nothing
// is written.
//
// The error names every type that has no codec, one in a line.
func Packages(ctx context.Context, at Place, patterns ...string) ([]File, error) {
	var err error
	if at.Dir, err = filepath.Abs(at.Dir); err != nil {
		return nil, err
	}
	l, wanted, err := load(ctx, at, patterns)
	if err != nil {
		return nil, err
	}
	var files []File
	var errs []error
	for _, p := range wanted {
		file, err := l.generate(p)
		errs = append(errs, err)
		if file != nil {
			files = append(files, *file)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("nothing to generate: no type is used with package %s, and none is marked %s", sdkPath, markGenerate)
	}
	return files, nil
}

// generate makes the file of one package; nil if it needs none and has none.
func (l *loader) generate(p *listed) (*File, error) {
	if !p.ours() {
		return nil, fmt.Errorf("package %s does not belong to the module in which the command runs", p.ImportPath)
	}
	sources, err := l.parse(p)
	if err != nil {
		return nil, err
	}
	c := l.check(p, sources)
	file := &File{Path: filepath.Join(p.Dir, FileName)}
	roots, left := c.roots()
	if len(roots) == 0 {
		l.ours[p.ImportPath] = c.types
		if _, err := os.Stat(file.Path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return file, nil
	}
	s := &shapes{pkg: c.types, ours: l.isOurs, left: left}
	for _, r := range roots {
		s.of(r.typ, place{r.pos, typeName(r.typ)}).root = true
	}
	if len(s.errs) > 0 {
		return nil, l.refused(s)
	}
	s.plan()
	if file.Content, err = s.file(p.Name); err != nil {
		return nil, fmt.Errorf("package %s: %w", p.ImportPath, err)
	}
	return file, l.verify(p, sources, file)
}

// refused tells what was refused, in the order of the source.
func (l *loader) refused(s *shapes) error {
	slices.SortStableFunc(s.errs, func(a, b refusal) int { return cmp.Compare(a.pos, b.pos) })
	var errs []error
	for _, r := range s.errs {
		errs = append(errs, fmt.Errorf("%s: %s (%s): %s", l.at(r.pos), r.path, (&writer{pkg: s.pkg, imports: map[string]string{}}).typ(r.typ), r.reason))
	}
	return errors.Join(errs...)
}

// verify checks that the package compiles with the generated file, which is
// how others see it from here on.
func (l *loader) verify(p *listed, sources []*ast.File, file *File) error {
	generated, err := l.parseFile(file.Path, file.Content)
	if err != nil {
		return err
	}
	c := l.check(p, append(slices.Clone(sources), generated))
	l.ours[p.ImportPath] = c.types
	if len(c.errs) > 0 {
		return fmt.Errorf("package %s does not compile: %w", p.ImportPath, c.errs[0])
	}
	return nil
}

// Update writes the files that are not as they should be and calls changed
// with the path of each, relative to the working directory. With check it
// writes nothing, and stale files are an error.
func Update(files []File, check bool, changed func(path string)) error {
	var stale []error
	for _, f := range files {
		fresh, err := f.fresh()
		switch {
		case err != nil:
			return err
		case fresh:
		case check:
			stale = append(stale, fmt.Errorf("%s is stale: run `thole generate`", relative(f.Path)))
		default:
			if err := f.write(); err != nil {
				return err
			}
			changed(relative(f.Path))
		}
	}
	return errors.Join(stale...)
}

func (f File) fresh() (bool, error) {
	have, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return f.Content == nil, nil
	}
	return err == nil && f.Content != nil && bytes.Equal(have, f.Content), err
}

func (f File) write() error {
	if f.Content == nil {
		return os.Remove(f.Path)
	}
	return os.WriteFile(f.Path, f.Content, 0o644)
}

// relative is a path as one would type it.
func relative(path string) string {
	if dir, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(dir, path); err == nil {
			return rel
		}
	}
	return path
}
