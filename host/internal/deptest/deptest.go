// Package deptest tests which package may import which, as DESIGN's table of
// folders has it, with a reason for each ban.
//
// It checks direct imports only. That is enough, because every folder of the
// repository has rules of its own, and no other module imports this one.
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

// A Ban forbids packages to import others.
type Ban struct {
	// Importers are the packages that the ban applies to.
	Importers Set
	// Imported are the packages that they must not import.
	Imported Set
	// Tests extends the ban to test files.
	Tests bool
	// Why is the reason, shown to whoever breaks the rule.
	Why string
}

// A Set contains the import paths that match a pattern of Of and none of Except.
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

// A Package is a folder with Go files, and what they import.
type Package struct {
	ImportPath string
	// TestImports are the imports of the files that end in _test.go.
	Imports, TestImports []string
}

// Check returns a line for every import that a ban forbids, sorted and without
// duplicates.
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

// Load reads the imports of every Go file of the module in dir. It parses the
// files itself: so build tags hide none of them, and the go command runs the
// test again when one of them changes.
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

// outside reports whether a folder is not part of the module, because the go
// command ignores it or it is a module of its own.
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
