// Package deptest keeps the table of folders in the design: which package may
// import which, with a reason for each ban.
//
// Only direct imports are looked at. That is enough: every folder of the
// repository has its own rule, and nothing outside of it imports us.
package deptest

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/thole-dev/thole"

// A Ban is one import that a folder may not have.
type Ban struct {
	// Importers are the packages it holds for.
	Importers Set
	// Imported are the imports that are banned.
	Imported Set
	// Tests says whether it holds for test files too.
	Tests bool
	// Why is the reason, read by whoever breaks the rule.
	Why string
}

// A Set of import paths: all that an Of pattern matches, but none of Except.
//
// A pattern is an import path, of the repository when it begins with a dot
// ("./host/cache"); "..." at its end stands for the package and everything
// below. "std" is the standard library and "..." is everything.
type Set struct {
	Of, Except []string
}

// contains reports whether the set holds the import path.
func (s Set) contains(importPath string) bool {
	matches := func(pattern string) bool { return match(pattern, importPath) }
	return slices.ContainsFunc(s.Of, matches) && !slices.ContainsFunc(s.Except, matches)
}

func match(pattern, importPath string) bool {
	switch {
	case pattern == "...":
		return true
	case pattern == "std":
		first, _, _ := strings.Cut(importPath, "/")
		return !strings.Contains(first, ".")
	case pattern == "." || strings.HasPrefix(pattern, "./"):
		pattern = path.Join(module, pattern)
	}
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return importPath == prefix || strings.HasPrefix(importPath, prefix+"/")
	}
	return importPath == pattern
}

// A Package is a folder with Go files and what they import.
type Package struct {
	ImportPath string
	// Imports are those of its files, TestImports those of its test files.
	Imports, TestImports []string
}

// Check returns one line for every import that a ban forbids, in order and
// without duplicates.
func Check(packages []Package, bans []Ban) []string {
	var broken []string
	for _, p := range packages {
		for _, ban := range bans {
			if !ban.Importers.contains(p.ImportPath) {
				continue
			}
			for _, imported := range p.imports(ban.Tests) {
				if ban.Imported.contains(imported) {
					broken = append(broken, fmt.Sprintf("%s imports %s: %s", short(p.ImportPath), short(imported), ban.Why))
				}
			}
		}
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}

func (p Package) imports(tests bool) []string {
	if !tests {
		return p.Imports
	}
	return slices.Concat(p.Imports, p.TestImports)
}

func short(importPath string) string {
	return strings.TrimPrefix(importPath, module+"/")
}

// Load reads the imports of every Go file of the module in dir. It reads the
// files itself, whatever platform they are for, so that build tags hide nothing
// and the go command knows what a cached result of the test depends on.
func Load(dir string) ([]Package, error) {
	packages := map[string]*Package{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != dir && outside(file, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(file) != ".go":
			return nil
		}
		folder, err := filepath.Rel(dir, filepath.Dir(file))
		if err != nil {
			return err
		}
		importPath := path.Join(module, filepath.ToSlash(folder))
		if packages[importPath] == nil {
			packages[importPath] = &Package{ImportPath: importPath}
		}
		return packages[importPath].add(file)
	})
	var sorted []Package
	for _, importPath := range slices.Sorted(maps.Keys(packages)) {
		sorted = append(sorted, *packages[importPath])
	}
	return sorted, err
}

// outside reports whether a folder is no part of the module: the go command
// ignores it, or it is a module of its own.
func outside(folder, name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" {
		return true
	}
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// add adds the imports of one file.
func (p *Package) add(file string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	imports := &p.Imports
	if strings.HasSuffix(file, "_test.go") {
		imports = &p.TestImports
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		*imports = append(*imports, imported)
	}
	return nil
}
