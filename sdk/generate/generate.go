// Package generate writes the codec of an author's types: Go source that reads and
// appends their JSON without reflection. It is the implementation of `thole
// generate`, which runs on the author's machine and is not part of a plugin.
//
// # What is generated
//
// Each package gets one file, [FileName], with the methods
//
//	func (x *T) DecodeJSON(r *codec.Reader)
//	func (x T) AppendJSON(dst []byte) ([]byte, error)
//
// for those types T of the package that are passed to the SDK: the spec and the
// status of a controller, the types of the versions that it converts, the state of a daemon, the arguments of Get, List, Apply, Patch, Config, Memo,
// SetMemo, Signal, Decode and Encode, the elements of Warm, and types whose declaration has
// the comment //thole:generate or //thole:compact. A type with the comment
// //thole:leave is left to encoding/json. The types that these consist of get functions.
//
// The SDK uses the methods instead of encoding/json wherever a type has them. A
// struct of another package that embeds a type with methods inherits them as if they
// were for the whole struct: generate in that package too, or make it a named field.
//
// # Compact codecs
//
// A struct with the comment //thole:compact gets a codec with a quarter of the size. It
// is one method that names each field once, for reading and for appending:
//
//	func (x *T) VisitJSON(v *codec.Visitor)
//
// So do the structs of the package that it consists of. This is for structs with many
// fields of which a plugin uses few, such as those of sdk/kubernetes: reading takes
// longer, because the name of a member is compared with those of all fields. A field
// may be a boolean, a string, a signed integer, a struct, a comparable type with a codec
// of its own, a pointer to one of these, and a list or map of them. Bytes may be the
// values of a map. The option "omitzero" ignores fields without JSON.
//
// # Differences from encoding/json
//
// The methods do what encoding/json does, except that
//
//   - names of members are compared exactly, as in Kubernetes, and not regardless of
//     case
//   - strings alias the input, and bytes in them that are not UTF-8 are kept; the host
//     sends none
//   - <, > and &, U+2028 and U+2029 are written as they are, not as \u003c and so on
//   - recursive types are read and written to a depth of [codec.MaxDepth], because the
//     stack of a guest is small
//   - MarshalJSON and MarshalText of a pointer receiver are called for every value;
//     encoding/json calls them only for addressable values
//   - what a failed decoder leaves in the value may differ
//
// # What is refused
//
// Nothing is written if there is an error. A type for which no codec can be generated
// is an error with its place in the author's types and in the source: interfaces,
// functions, channels, complex numbers, maps whose keys are not strings, json.Number,
// the tag option ",string".
//
// In a plugin that registers all its controllers by sdk.RegisterGenerated, and so does
// not contain encoding/json, a call that passes a value without a codec to the SDK is an
// error too, such as the map in
//
//	r.Apply(map[string]any{"kind": "ConfigMap"})
//
// Without this check it would fail when it runs. The error has the place, the type and
// what to do. The check finds a value
//
//   - that is an expression of a type without a codec: a literal, a variable, the result
//     of a function, a field
//   - that is converted to an interface such as any, and gets to the SDK through elements
//     of lists, and through variables and parameters that are used once, as in
//     for _, object := range []any{deployment, service} { r.Apply(object) } or in
//     func apply(r *sdk.Run, object any) { r.Apply(object) }
//   - whose type is a type argument of a generic function or type that has no type
//     assertion
//
// in the packages of the author's module. Any other value in an interface is accepted,
// and fails when it runs: one from a field, from a function that returns an interface,
// from a variable that is used more than once, or through a function value or an
// interface. So a call is refused only if the type of its value is certain.
package generate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// FileName is the name of the generated file in the directory of a package.
const FileName = "zz_generated.thole.go"

// File is the desired state of a generated file.
type File struct {
	Path    string // absolute
	Content []byte // nil if the file shall not exist
	By      string // the command that writes it; "" means thole generate
}

// Place is where the go command runs.
type Place struct {
	Dir string // to which patterns are relative; in the author's module
	// Temp is an existing directory for the temporary files of the go command,
	// which remain there if the command is killed because the context has ended.
	// "" leaves it to the go command.
	Temp string
}

// Packages generates the files of the packages that match the patterns. It does not
// write them. The error has one line for each type that is refused.
func Packages(ctx context.Context, at Place, patterns ...string) ([]File, error) {
	var err error
	if at.Dir, err = filepath.Abs(at.Dir); err != nil {
		return nil, err
	}
	l, matched, err := load(ctx, at, patterns)
	if err != nil {
		return nil, err
	}
	var files []File
	var errs []error
	for _, p := range matched {
		file, err := l.generate(p)
		errs = append(errs, err)
		if file != nil {
			files = append(files, *file)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := l.checkCalls(matched); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("nothing to generate: no type is used with package %s, and none is marked %s", sdkPath, markGenerate)
	}
	return files, nil
}

// generate returns the file of one package, or nil if it needs none and has none.
func (l *loader) generate(p *listed) (*File, error) {
	if !p.inModule() {
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
		l.checked[p.ImportPath] = c
		if _, err := os.Stat(file.Path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return file, nil
	}
	s := &shapes{pkg: c.types, inModule: l.isInModule, left: left}
	for _, r := range roots {
		sh := s.of(r.typ, place{r.pos, r.typ.Obj().Name()})
		sh.root, sh.compact = true, r.compact
		if r.compact && (sh.kind != structure || sh.read != generated || sh.write != generated) {
			s.refuse(place{r.pos, r.typ.Obj().Name()}, r.typ, "only a struct without JSON methods can have a compact codec; mark it "+markGenerate)
		}
	}
	s.findRecursive()
	s.split()
	if len(s.refused) > 0 {
		return nil, l.refusedError(s.pkg, s.refused)
	}
	s.analyze()
	if file.Content, err = s.file(p.Name); err != nil {
		return nil, fmt.Errorf("package %s: %w", p.ImportPath, err)
	}
	return file, l.verify(p, sources, file)
}

// refusal is a type without a codec, or an unsupported field.
type refusal struct {
	place
	typ    types.Type
	reason string
}

// place is a position in the source, and what is refused there.
type place struct {
	pos  token.Pos
	path string // such as Spec.Containers[].Probe, or Run.Apply
}

func (p place) element() place { return place{p.pos, p.path + "[]"} }

// refusedError returns the error for what was refused, in the order of the source.
func (l *loader) refusedError(pkg *types.Package, refused []refusal) error {
	slices.SortStableFunc(refused, func(a, b refusal) int { return cmp.Compare(a.pos, b.pos) })
	w := &writer{pkg: pkg, imports: map[string]string{}}
	var lines []string
	for _, r := range refused {
		lines = append(lines, fmt.Sprintf("%s: %s (%s): %s", l.position(r.pos), r.path, w.typ(r.typ), r.reason))
	}
	return errors.New(strings.Join(slices.Compact(lines), "\n"))
}

// verify checks that the package compiles with the generated file, and makes it the
// package that others import.
func (l *loader) verify(p *listed, sources []*ast.File, file *File) error {
	generated, err := l.parseFile(file.Path, file.Content)
	if err != nil {
		return err
	}
	c := l.check(p, append(slices.Clone(sources), generated))
	l.checked[p.ImportPath] = c
	if len(c.errs) > 0 {
		return fmt.Errorf("package %s does not compile: %w", p.ImportPath, c.errs[0])
	}
	return nil
}

// Update writes the files that are not up to date and calls changed with the path of
// each, relative to the working directory. With check it writes nothing, and stale
// files are an error.
func Update(files []File, check bool, changed func(path string)) error {
	var stale []error
	for _, f := range files {
		fresh, err := f.fresh()
		switch {
		case err != nil:
			return err
		case fresh:
		case check:
			stale = append(stale, fmt.Errorf("%s is stale: run `%s`", relative(f.Path), cmp.Or(f.By, "thole generate")))
		default:
			if err := f.write(); err != nil {
				return err
			}
			changed(relative(f.Path))
		}
	}
	return errors.Join(stale...)
}

// fresh reports whether the file is up to date.
func (f File) fresh() (bool, error) {
	have, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return f.Content == nil, nil
	}
	return err == nil && f.Content != nil && bytes.Equal(have, f.Content), err
}

// write writes the file, or removes it if it shall not exist.
func (f File) write() error {
	if f.Content == nil {
		return os.Remove(f.Path)
	}
	return os.WriteFile(f.Path, f.Content, 0o644)
}

// relative returns a path relative to the working directory if possible.
func relative(path string) string {
	if dir, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(dir, path); err == nil {
			return rel
		}
	}
	return path
}
