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

// The first lines of tables of promises, with the index of the cell that names the
// tests.
const (
	promiseHeader  = "| promise | what gives it | test |"
	boundaryHeader = "| boundary | what enforces it | the test that shows it | what is not defended |"
)

var testCells = map[string]int{promiseHeader: 2, boundaryHeader: 2}

// unfulfilled begins the second cell of a promise that has no test yet.
const unfulfilled = "not yet: "

// insideAlone precedes the reason why no test from outside can show a promise.
const insideAlone = "; from inside alone: "

// outside are the packages, and the folders of packages, whose tests drive the program
// or the public SDK, so that they survive a change of the packages of the host.
var outside = regexp.MustCompile(`^(host/internal/(browser|chart|deploy|dev|doc|kstatus)test|host/internal/(e2e|scenario)|sdk(/.+)?|plugins/.+|cmd/thole|abi/tck)$`)

// TestPromisesNameTestsThatExist reads the tables of promises in docs/reference, and of
// boundaries in the threat model. A cell of each row names packages, each followed by
// tests that it has, one of them from outside.
func TestPromisesNameTestsThatExist(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(root(t), "docs", "reference", "*.md"))
	done(t, err)
	found = append(found, filepath.Join(root(t), "docs", "explanation", "threat-model.md"))
	rows := 0
	for _, path := range found {
		text, err := os.ReadFile(path)
		done(t, err)
		for _, row := range promises(string(text)) {
			rows++
			if problem := row.problem(root(t)); problem != "" {
				t.Errorf("%s: %s: %s", filepath.Base(path), row.cells[0], problem)
			}
		}
	}
	if rows < 270 {
		t.Errorf("only %d promises were found", rows)
	}
}

// A promise is a row of a table.
type promise struct {
	cells []string
	want  int // how many cells there are to be
	tests int // the index of the cell that names tests
}

// promises returns the rows of all tables of promises.
func promises(document string) (rows []promise) {
	header := ""
	for line := range strings.Lines(document) {
		line = strings.TrimSpace(line)
		switch {
		case testCells[line] > 0:
			header = line
		case !strings.HasPrefix(line, "|"):
			header = ""
		case header != "" && !strings.HasPrefix(line, "|---"):
			p := promise{strings.Split(strings.Trim(line, "|"), "|"), strings.Count(header, "|") - 1, testCells[header]}
			for i := range p.cells {
				p.cells[i] = strings.TrimSpace(p.cells[i])
			}
			rows = append(rows, p)
		}
	}
	return rows
}

var quotedName = regexp.MustCompile("`([^`]+)`")

// problem returns what is wrong with a promise, "" if nothing is.
func (p promise) problem(repository string) string {
	if len(p.cells) != p.want || p.cells[0] == "" || p.cells[1] == "" {
		return fmt.Sprintf("has %d cells, want %d, the first two not empty", len(p.cells), p.want)
	}
	cell, reason, isInside := strings.Cut(p.cells[p.tests], insideAlone)
	names := quotedName.FindAllStringSubmatch(cell, -1)
	if strings.HasPrefix(p.cells[1], unfulfilled) && len(names) == 0 {
		return ""
	}
	pkg, tests, fromOutside := "", 0, false
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
			fromOutside = fromOutside || outside.MatchString(pkg)
		}
	}
	switch {
	case tests == 0:
		return "names no test"
	case isInside && (reason == "" || fromOutside):
		return "states why only a test from inside shows it, and names another one or no reason"
	case !isInside && !fromOutside:
		return "names no test that drives the program or the SDK"
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
		"| p | g | `host/internal/doctest` `TestPromisesWithoutATestAreFound` |":                             "",
		"| p | not yet: nothing does | |":                                                                    "",
		"| p | nothing does | |":                                                                             "names no test",
		"| p | g | `host/internal/doctest` |":                                                                "names no test",
		"| p | g | `TestPromisesWithoutATestAreFound` |":                                                     "TestPromisesWithoutATestAreFound has no package before it",
		"| p | g | `host/queue` `TestPromisesWithoutATestAreFound` |":                                        "package host/queue has no test TestPromisesWithoutATestAreFound",
		"| p | g | `host/internal/scenario` `TestScenarios/timers` |":                                        "",
		"| p | g | `host/internal/scenario` `TestScenarios/absent` |":                                        "package host/internal/scenario has no test TestScenarios/absent",
		"| p | g | `host/internal/doctest` `TestPromises` |":                                                 "package host/internal/doctest has no test TestPromises",
		"| p | not yet: later | `host/queue` `TestAbsent` |":                                                 "package host/queue has no test TestAbsent",
		"| p | `host/internal/doctest` `TestPromisesWithoutATestAreFound` |":                                 "has 2 cells, want 3, the first two not empty",
		"| p | g | `host/queue` `TestABurstOfEdgesLeadsToOneRun` |":                                          "names no test that drives the program or the SDK",
		"| p | g | `host/queue` `TestABurstOfEdgesLeadsToOneRun`; from inside alone: only the queue knows |": "",
		"| p | g | `host/queue` `TestABurstOfEdgesLeadsToOneRun`; from inside alone: |":                      "names no test that drives the program or the SDK",
		"| p | g | `host/internal/doctest` `TestPromisesWithoutATestAreFound`; from inside alone: none |":    "states why only a test from inside shows it, and names another one or no reason",
	} {
		rows := promises("| a | b |\n|---|---|\n| c | d |\n\n" + head + text + "\n\ntext\n| e |\n")
		if len(rows) != 1 {
			t.Fatalf("%s: %d rows", text, len(rows))
		}
		if got := rows[0].problem(root(t)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
