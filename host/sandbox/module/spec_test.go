package module

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// inSpec has the limits as abi/spec/limits.md states them: by the name of the constant,
// what it bounds. A constant may bound more than one thing.
var inSpec = map[string][]struct {
	what  string
	value int
}{
	"MaxSize": {{"bytes of the file", MaxSize}},
	"MaxFunctions": {
		{"functions, imported ones too", MaxFunctions},
		{"names of functions in the name section", MaxFunctions},
	},
	"MaxBody": {{"bytes of a function", MaxBody}},
	"MaxLocals": {
		{"locals of a function, without parameters", MaxLocals},
		{"names of a function's locals in the name section", MaxLocals},
	},
	"maxAllLocals":      {{"locals of all functions together", maxAllLocals}},
	"MaxTableSize":      {{"elements that a table begins with", MaxTableSize}},
	"maxGrownTable":     {{"elements that a table can grow to, if code grows any", maxGrownTable}},
	"maxTypes":          {{"types", maxTypes}},
	"maxParams":         {{"parameters of a type, and results", maxParams}},
	"maxTypeValues":     {{"parameters and results of all types together", maxTypeValues}},
	"maxFunctionValues": {{"parameters and results of all functions together", maxFunctionValues}},
	"maxImports":        {{"imports", maxImports}},
	"maxExports":        {{"exports", maxExports}},
	"maxGlobals":        {{"globals", maxGlobals}},
	"maxTables":         {{"tables", maxTables}},
	"maxSegments":       {{"element segments, and data segments", maxSegments}},
	"maxElements":       {{"elements of all segments together", maxElements}},
	"maxReferenced":     {{"functions that code refers to by `ref.func`", maxReferenced}},
	"maxCustom":         {{"custom sections", maxCustom}},
	"maxNameLength":     {{"bytes of the name of an import or export", maxNameLength}},
	"maxWeight":         {{"weight of a function", maxWeight}},
	"maxWritten":        {{"bytes after fuel was compiled in", maxWritten}},
}

// TestSpecHasARowForEachLimit and no other row.
func TestSpecHasARowForEachLimit(t *testing.T) {
	text, err := os.ReadFile("../../../abi/spec/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| of a module | at most |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]bool{}
	for line := range strings.Lines(table + "\n") {
		rows[line] = true
	}
	for name, limits := range inSpec {
		for _, limit := range limits {
			row := fmt.Sprintf("| %s | %s |\n", limit.what, formatted(limit.value))
			if !rows[row] {
				t.Errorf("limits.md has no row %s, for %s", row, name)
			}
			delete(rows, row)
		}
	}
	for row := range rows {
		t.Errorf("limits.md has %s, which is no limit here", row)
	}
}

// TestEveryLimitIsListed covers the constants whose names begin with max.
func TestEveryLimitIsListed(t *testing.T) {
	for _, file := range []string{"module.go", "code.go", "rewrite.go"} {
		for _, name := range limitsIn(t, file) {
			if inSpec[name] == nil {
				t.Errorf("%s is not listed: state it in abi/spec/limits.md", name)
			}
		}
	}
}

func limitsIn(t *testing.T, file string) (names []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range parsed.Decls {
		constants, ok := decl.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				if strings.HasPrefix(strings.ToLower(name.Name), "max") {
					names = append(names, name.Name)
				}
			}
		}
	}
	if len(names) == 0 {
		t.Fatalf("%s has no limits", file)
	}
	return names
}

// formatted returns a number as abi/spec/limits.md writes it.
func formatted(n int) string {
	switch {
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n == MaxBody:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
