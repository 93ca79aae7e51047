//go:build unix

package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promiseHeader begins a table of what a reference document promises.
const promiseHeader = "| promise | what gives it | test |"

// unfulfilled begins the second cell of a promise that has no test yet.
const unfulfilled = "not yet: "

// TestPromisesNameTestsThatExist reads the tables of promises in docs/reference. The
// third cell names packages, each followed by tests that it has.
func TestPromisesNameTestsThatExist(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(root(t), "docs", "reference", "*.md"))
	done(t, err)
	rows := 0
	for _, path := range found {
		text, err := os.ReadFile(path)
		done(t, err)
		for _, row := range promises(string(text)) {
			rows++
			if problem := promiseProblem(root(t), row); problem != "" {
				t.Errorf("%s: %s: %s", filepath.Base(path), row[0], problem)
			}
		}
	}
	if rows < 30 {
		t.Errorf("only %d promises were found", rows)
	}
}

// promises returns the cells of the rows of all tables of promises.
func promises(document string) (rows [][]string) {
	inTable := false
	for line := range strings.Lines(document) {
		line = strings.TrimSpace(line)
		switch {
		case line == promiseHeader:
			inTable = true
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable && !strings.HasPrefix(line, "|---"):
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

var quotedName = regexp.MustCompile("`([^`]+)`")

// promiseProblem returns what is wrong with a row, "" if nothing is.
func promiseProblem(repository string, row []string) string {
	if len(row) != 3 || row[0] == "" || row[1] == "" {
		return fmt.Sprintf("has %d cells, want a promise, what gives it, and its tests", len(row))
	}
	names := quotedName.FindAllStringSubmatch(row[2], -1)
	if strings.HasPrefix(row[1], unfulfilled) && len(names) == 0 {
		return ""
	}
	pkg, tests := "", 0
	for _, m := range names {
		switch {
		case !testFuncName.MatchString(m[1]):
			pkg = m[1]
		case pkg == "":
			return m[1] + " has no package before it"
		case !hasTest(repository, pkg, m[1]):
			return "package " + pkg + " has no test " + m[1]
		default:
			tests++
		}
	}
	if tests == 0 {
		return "names no test"
	}
	return ""
}

// hasTest reports whether a package has a test, or a script that a test runs, which is
// named as its subtest.
func hasTest(repository, pkg, name string) bool {
	test, script, isScript := strings.Cut(name, "/")
	if !slices.Contains(testsOf(repository, pkg), test) {
		return false
	}
	if !isScript {
		return true
	}
	testdata := filepath.Join(repository, filepath.FromSlash(pkg), "testdata")
	for _, folder := range []string{testdata, filepath.Join(testdata, "*")} {
		if found, _ := filepath.Glob(filepath.Join(folder, script+".txtar")); len(found) > 0 {
			return true
		}
	}
	return false
}

// testNames are those of [testsOf], by package.
var testNames = map[string][]string{}

var testFuncName = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*(/[a-z0-9-]+)?$`)

// testsOf returns the names of a package's tests. Packages are read once.
func testsOf(repository, pkg string) (names []string) {
	if known, ok := testNames[pkg]; ok {
		return known
	}
	defer func() { testNames[pkg] = names }()
	files, _ := filepath.Glob(filepath.Join(repository, filepath.FromSlash(pkg), "*_test.go"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, m := range testFuncPattern.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

func TestPromisesWithoutATestAreFound(t *testing.T) {
	const head = promiseHeader + "\n|---|---|---|\n"
	for text, want := range map[string]string{
		"| p | g | `host/internal/doctest` `TestPromisesWithoutATestAreFound` |": "",
		"| p | not yet: nothing does | |":                                        "",
		"| p | nothing does | |":                                                 "names no test",
		"| p | g | `host/internal/doctest` |":                                    "names no test",
		"| p | g | `TestPromisesWithoutATestAreFound` |":                         "TestPromisesWithoutATestAreFound has no package before it",
		"| p | g | `host/queue` `TestPromisesWithoutATestAreFound` |":            "package host/queue has no test TestPromisesWithoutATestAreFound",
		"| p | g | `host/internal/scenario` `TestScenarios/timers` |":            "",
		"| p | g | `host/internal/scenario` `TestScenarios/absent` |":            "package host/internal/scenario has no test TestScenarios/absent",
		"| p | g | `host/internal/doctest` `TestPromises` |":                     "package host/internal/doctest has no test TestPromises",
		"| p | not yet: later | `host/queue` `TestAbsent` |":                     "package host/queue has no test TestAbsent",
		"| p | `host/internal/doctest` `TestPromisesWithoutATestAreFound` |":     "has 2 cells, want a promise, what gives it, and its tests",
	} {
		rows := promises("| a | b |\n|---|---|\n| c | d |\n\n" + head + text + "\n\ntext\n| e |\n")
		if len(rows) != 1 {
			t.Fatalf("%s: %d rows", text, len(rows))
		}
		if got := promiseProblem(root(t), rows[0]); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
