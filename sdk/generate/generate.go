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
// for those types T of the package that are passed to the SDK: the types of which a value
// becomes a sdk.Value, wherever that is, and the type arguments for parameters of the SDK with
// this constraint, such as the spec and the status of a controller. Types whose declaration has
// the comment //thole:generate or //thole:compact get them too. The types that these consist of
// get functions. A plugin may declare its types in other packages of its module: their files
// are written with its own.
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
// # A file that is stale does not compile
//
// The file repeats the fields of each struct that it reads or writes. After a change of the
// struct, the compiler reports the line until the file is generated again.
//
// # What is left to encoding/json
//
// A type for which no codec can be generated is left to encoding/json, which the file links
// then: a map[string]any, a struct with a field of an interface type, with a map whose keys
// are not strings, with a json.Number or the tag option ",string", or of more than 500 fields
// or 996 words, a generic type, and a value of which nothing is known but that it is in an
// interface such as any. [Result] has a note with the place of each.
//
// # What is refused
//
// Nothing is written if there is an error: for a type that has no JSON form, such as a
// function, a channel or a complex number, and for one that is marked, or that embeds one
// with a codec, and for which no codec can be generated. The error has the place in the
// author's types and in the source.
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

// Result is what is generated.
type Result struct {
	Files []File
	// Notes are lines about what is left to encoding/json, and why.
	Notes []string
}

// Packages generates the files of the packages that match the patterns, and of those packages
// of their module whose types they pass to the SDK. It does not write them. The error has one
// line for each type that is refused.
func Packages(ctx context.Context, at Place, patterns ...string) (*Result, error) {
	var err error
	if at.Dir, err = filepath.Abs(at.Dir); err != nil {
		return nil, err
	}
	l, matched, err := load(ctx, at, patterns)
	if err != nil {
		return nil, err
	}
	for _, p := range matched {
		if !p.inModule() {
			return nil, fmt.Errorf("package %s does not belong to the module in which the command runs", p.ImportPath)
		}
	}
	needed, err := l.find(matched)
	if err != nil {
		return nil, err
	}
	clear(l.checked) // from here on with what is generated
	result := &Result{}
	var errs []error
	for _, p := range l.order {
		if n := needed[p.ImportPath]; n != nil || slices.Contains(matched, p) {
			file, left, err := l.generate(p, n)
			errs = append(errs, err)
			if file != nil {
				result.Files = append(result.Files, *file)
			}
			result.Notes = append(result.Notes, l.lines(left, " is left to encoding/json")...)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(result.Files) == 0 {
		return nil, fmt.Errorf("nothing to generate: no type is used with package %s, and none is marked %s", sdkPath, markGenerate)
	}
	return result, nil
}

// generate returns the file of one package, or nil if it needs none and has none, and what
// is left to encoding/json.
func (l *loader) generate(p *listed, n *needs) (*File, []refusal, error) {
	if n == nil {
		n = &needs{}
	}
	sources, err := l.parse(p)
	if err != nil {
		return nil, nil, err
	}
	c := l.check(p, sources)
	file := &File{Path: filepath.Join(p.Dir, FileName)}
	s, left, err := l.shapesOf(c, l.rootsOf(c, n.roots))
	if err != nil {
		return nil, nil, err
	}
	left = append(left, n.others...)
	s.analyze()
	switch file.Content, err = s.file(p.Name, left); {
	case err != nil:
		return nil, nil, fmt.Errorf("package %s: %w", p.ImportPath, err)
	case file.Content != nil:
		return file, left, l.verify(p, sources, file)
	}
	l.checked[p.ImportPath] = c
	if _, err := os.Stat(file.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	return file, nil, nil
}

// shapesOf returns the shapes of roots. Those without a codec are left to encoding/json, if
// that can read and write them.
func (l *loader) shapesOf(c *checked, roots []root) (s *shapes, left []refusal, err error) {
	for {
		s = &shapes{pkg: c.types, inModule: l.isInModule}
		for _, r := range roots {
			s.addRoot(r)
		}
		s.findRecursive()
		s.split()
		if len(s.refused) == 0 {
			return s, left, nil
		}
		var fatal []refusal
		for _, refused := range s.refused {
			switch r := refused.root; {
			case r.mark != "" || refused.reason == noJSONForm || refused.reason == notKnown || inheritsCodec(r.typ):
				fatal = append(fatal, refused)
			case !r.old:
				left = append(left, refused)
			}
			roots = slices.DeleteFunc(roots, func(r root) bool { return r.typ == refused.root.typ })
		}
		if len(fatal) > 0 {
			return nil, nil, errors.New(strings.Join(l.lines(fatal, ""), "\n"))
		}
	}
}

// addRoot adds the shapes of a root.
func (s *shapes) addRoot(r root) {
	s.root = r
	at := place{r.pos, r.typ.Obj().Name()}
	sh := s.of(r.typ, at)
	sh.root, sh.compact = true, r.mark == markCompact
	if sh.compact && (sh.kind != structure || sh.read != generated || sh.write != generated) {
		s.refuse(at, r.typ, "only a struct without JSON methods can have a compact codec; mark it "+markGenerate)
	}
}

// refusal is a type without a codec, or an unsupported field.
type refusal struct {
	place
	typ    types.Type
	reason string
	root   root // of which it is a part
}

// place is a position in the source, and what is refused there.
type place struct {
	pos  token.Pos
	path string // such as Spec.Containers[].Probe, or Run.Apply
}

func (p place) element() place { return place{p.pos, p.path + "[]"} }

// lines returns a line for each, in the order of the source. Each says what happens, and why.
func (l *loader) lines(all []refusal, what string) (lines []string) {
	slices.SortStableFunc(all, func(a, b refusal) int { return cmp.Compare(a.pos, b.pos) })
	for _, r := range all {
		lines = append(lines, fmt.Sprintf("%s: %s (%s)%s: %s", l.position(r.pos), r.path, types.TypeString(r.typ, (*types.Package).Name), what, r.reason))
	}
	return slices.Compact(lines)
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
