//go:build unix

package doctest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
)

// Aliases in the SDK: `go doc` shows nothing of them but their comments. So these end with a
// block that shows the type: its fields and methods, or its values if the package of the alias
// has no constants of it.

// TestAliasesOfTheSDKShowFieldsAndMethods generates the block of each exported alias.
func TestAliasesOfTheSDKShowFieldsAndMethods(t *testing.T) {
	sdk, shown := load(t, "sdk").aliases(), 0
	done(t, fs.WalkDir(os.DirFS(root(t)), "sdk", func(dir string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return err
		case d.Name() == "testdata" || d.Name() == "internal":
			return fs.SkipDir
		}
		shown += checkAliases(t, load(t, dir), sdk)
		return nil
	}))
	if shown == 0 {
		t.Error("no alias in the SDK shows its type")
	}
}

// goPackage is a package of this module, as it is compiled for this machine.
type goPackage struct {
	dir   string // in the repository
	fset  *token.FileSet
	files map[string]*ast.File // by their paths
}

func load(t *testing.T, dir string) goPackage {
	p := goPackage{dir, token.NewFileSet(), map[string]*ast.File{}}
	found, err := build.ImportDir(filepath.Join(root(t), dir), 0)
	if _, none := errors.AsType[*build.NoGoError](err); none {
		return p
	}
	done(t, err)
	for _, name := range found.GoFiles {
		file := filepath.Join(found.Dir, name)
		p.files[file], err = parser.ParseFile(p.fset, file, nil, parser.ParseComments)
		done(t, err)
	}
	return p
}

// docs returns what `go doc` knows of the package, without unexported fields. It changes the files.
func (p goPackage) docs(t *testing.T) *doc.Package {
	docs, err := doc.NewFromFiles(p.fset, slices.Collect(maps.Values(p.files)), p.dir)
	done(t, err)
	return docs
}

// text returns a declaration as gofmt writes it.
func (p goPackage) text(t *testing.T, d ast.Decl) string {
	var text strings.Builder
	done(t, format.Node(&text, p.fset, d))
	return text.String()
}

// alias is an exported name of a type that another package of this module declares.
type alias struct {
	name    string
	comment *ast.CommentGroup
	indent  string // of the comment
	of      declared
}

// declared is where a type is declared.
type declared struct{ dir, name string }

func (p goPackage) aliases() (all []alias) {
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		all = append(all, aliasesOf(p.files[name])...)
	}
	return all
}

// aliasesOf returns the aliases in a file, in their order.
func aliasesOf(file *ast.File) (all []alias) {
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.TYPE {
			continue
		}
		for _, s := range group.Specs {
			spec := s.(*ast.TypeSpec)
			of, imported := spec.Type.(*ast.SelectorExpr)
			if !imported || !spec.Assign.IsValid() || !spec.Name.IsExported() {
				continue
			}
			a := alias{spec.Name.Name, group.Doc, "", declared{importedDir(file, of.X.(*ast.Ident).Name), of.Sel.Name}}
			if group.Lparen.IsValid() {
				a.comment, a.indent = spec.Doc, "\t"
			}
			if a.of.dir != "" {
				all = append(all, a)
			}
		}
	}
	return all
}

// importedDir returns the folder of an imported package, "" if it is not of this module.
func importedDir(file *ast.File, name string) string {
	for _, i := range file.Imports {
		dir, ours := strings.CutPrefix(stringOf(i.Path), "github.com/thole-dev/thole/")
		if ours && (path.Base(dir) == name || i.Name != nil && i.Name.Name == name) {
			return dir
		}
	}
	return ""
}

// checkAliases compares the comments of the aliases in a package with what they should be, and
// returns how many show a type.
func checkAliases(t *testing.T, p goPackage, sdk []alias) (shown int) {
	w := newTypeWriter(t, p, sdk)
	for file, syntax := range p.files {
		data, err := os.ReadFile(file)
		done(t, err)
		text, stale := string(data), []string(nil)
		for _, a := range slices.Backward(aliasesOf(syntax)) {
			if a.comment == nil {
				t.Errorf("%s: the alias %s has no comment", p.dir, a.name)
				continue
			}
			block := w.block(a.name, a.of)
			start, end := p.fset.Position(a.comment.Pos()).Offset, p.fset.Position(a.comment.End()).Offset
			if comment := a.withBlock(block); comment != text[start:end] {
				text, stale = text[:start]+comment+text[end:], append(stale, a.name)
			}
			shown += min(len(block), 1)
		}
		switch {
		case len(stale) == 0:
		case *update:
			done(t, os.WriteFile(file, []byte(text), 0o644))
		default:
			t.Errorf("%s: the comments of %q do not show the types: run `go generate ./host/internal/doctest` and look at the difference", file, stale)
		}
	}
	return shown
}

// withBlock returns the comment with the block at its end, instead of the one that it has.
func (a alias) withBlock(block string) string {
	var lines []string
	for _, c := range a.comment.List {
		if strings.HasPrefix(c.Text, "//\ttype "+a.name+" ") {
			lines = lines[:len(lines)-1]
			break
		}
		lines = append(lines, c.Text)
	}
	if block != "" {
		for line := range strings.SplitSeq("\n"+block, "\n") {
			lines = append(lines, strings.TrimSpace("//\t"+line))
		}
	}
	return strings.Join(lines, "\n"+a.indent)
}

// typeWriter writes types for the readers of a package, who know them by its names and by
// those of package sdk.
type typeWriter struct {
	t     *testing.T
	in    *doc.Package
	names map[declared]string
	dir   string // where the type is declared
}

func newTypeWriter(t *testing.T, p goPackage, sdk []alias) typeWriter {
	w := typeWriter{t: t, in: load(t, p.dir).docs(t), names: map[declared]string{}}
	for _, a := range sdk {
		w.names[a.of] = "sdk." + a.name
	}
	for _, a := range p.aliases() {
		w.names[a.of] = a.name
	}
	return w
}

// block returns the declaration of a type by the name of an alias, with its methods, and with its
// values if the package of the alias has no constants of it. It is "" if there is nothing of these.
func (w typeWriter) block(name string, of declared) string {
	p := load(w.t, of.dir)
	for _, next := range p.aliases() {
		if next.name == of.name {
			return w.block(name, next.of)
		}
	}
	w.dir, w.names = of.dir, maps.Clone(w.names)
	w.names[of] = name
	docs := p.docs(w.t)
	typ := typeIn(w.t, docs, of.name)
	var members strings.Builder
	columns := tabwriter.NewWriter(&members, 0, 0, 1, ' ', 0)
	for _, m := range typ.Methods {
		w.rename(m.Decl)
		fmt.Fprintln(columns, p.text(w.t, m.Decl)+short(strings.TrimPrefix(docs.Synopsis(m.Doc), m.Name+" ")))
	}
	if len(typeIn(w.t, w.in, name).Consts) == 0 {
		for _, c := range constantsOf(typ) {
			fmt.Fprintln(columns, strconv.Quote(c.value)+short(w.plain(c.comment)))
		}
	}
	done(w.t, columns.Flush())
	w.rename(typ.Decl)
	text := p.text(w.t, typ.Decl)
	if members.Len() == 0 && !strings.Contains(text, "{") {
		return ""
	}
	return strings.TrimSpace(text + "\n\n" + members.String())
}

func typeIn(t *testing.T, docs *doc.Package, name string) *doc.Type {
	i := slices.IndexFunc(docs.Types, func(typ *doc.Type) bool { return typ.Name == name })
	if i < 0 {
		t.Fatalf("package %s has no type %s", docs.Name, name)
	}
	return docs.Types[i]
}

func constantsOf(typ *doc.Type) (all nameds) {
	for _, c := range typ.Consts {
		for _, s := range c.Decl.Specs {
			spec := s.(*ast.ValueSpec)
			all = append(all, named{value: literal(spec), comment: commentOf(c.Decl, spec)})
		}
	}
	return all
}

// short returns a comment for the column at the end of a line: none for one that is too long, and of one with a
// colon what is before it.
func short(comment string) string {
	const limit = 80
	comment = strings.TrimSuffix(strings.TrimSpace(comment), ".")
	if len(comment) > limit {
		comment, _, _ = strings.Cut(comment, ": ")
	}
	if comment == "" || len(comment) > limit {
		return "\t"
	}
	return "\t// " + comment
}

// rename gives the types in a declaration the names that a reader knows, and makes its comments
// plain.
func (w typeWriter) rename(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			w.rename(n.Recv)
			w.rename(n.Type)
			return false
		case *ast.Field:
			w.rename(n.Type)
			for _, comment := range []*ast.CommentGroup{n.Doc, n.Comment} {
				if comment != nil {
					w.rename(comment)
				}
			}
			return false
		case *ast.SelectorExpr:
			return false
		case *ast.Ident:
			n.Name = w.name(n.Name)
		case *ast.Comment:
			n.Text = w.plain(n.Text)
		}
		return true
	})
}

// name returns the name that a reader has for a type.
func (w typeWriter) name(of string) string {
	name, ok := w.names[declared{w.dir, of}]
	switch {
	case ok:
		return name
	case token.IsExported(of):
		w.t.Errorf("an alias in %s shows %s of %s, for which the SDK has no name: declare an alias, or let the comment do without it", w.in.Name, of, w.dir)
	}
	return of
}

// docLink is a link in a comment, and the words before it that only refer to it.
var docLink = regexp.MustCompile(`([;,] (?:feature|see) )?\B\[([A-Za-z]\w*)([.\w]*)\]`)

// plain returns a comment without links, and without references to what a reader has no name for.
func (w typeWriter) plain(comment string) string {
	return docLink.ReplaceAllStringFunc(comment, func(link string) string {
		m := docLink.FindStringSubmatch(link)
		if _, known := w.names[declared{w.dir, m[2]}]; !known && m[1] != "" {
			return ""
		}
		return m[1] + w.name(m[2]) + m[3]
	})
}
