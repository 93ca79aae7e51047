//go:build unix

package doctest

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents returns the paths of all documents, relative to the repository.
func documents(t *testing.T) (paths []string) {
	t.Helper()
	from := root(t)
	done(t, filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (strings.HasPrefix(e.Name(), ".") && path != from || e.Name() == "testdata" || e.Name() == "bin"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".md"):
			relative, err := filepath.Rel(from, path)
			paths = append(paths, relative)
			return err
		}
		return nil
	}))
	return paths
}

func readDocument(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), path))
	done(t, err)
	return string(text)
}

var (
	linkPattern    = regexp.MustCompile(`\[[^\]\n]+\]\(([^)\s]+)\)`)
	fencedPattern  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inlinePattern  = regexp.MustCompile("`[^`\n]+`")
	headingPattern = regexp.MustCompile(`(?m)^#+ +(.+)$`)
)

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	headings := map[string][]string{}
	for _, path := range documents(t) {
		text := inlinePattern.ReplaceAllString(fencedPattern.ReplaceAllString(readDocument(t, path), ""), "code")
		for _, m := range linkPattern.FindAllStringSubmatch(text, -1) {
			if problem := linkProblem(t, headings, path, m[1]); problem != "" {
				t.Errorf("%s: the link %s: %s", path, m[1], problem)
			}
		}
	}
}

// linkProblem returns what is wrong with a link of a document, "" if nothing is. headings remembers the
// anchors of documents.
func linkProblem(t *testing.T, headings map[string][]string, document, link string) string {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return err.Error()
	case u.Scheme != "":
		return "" // the network is not asked
	}
	target := document
	if u.Path != "" {
		target = filepath.Join(filepath.Dir(document), filepath.FromSlash(u.Path))
	}
	if _, err := os.Stat(filepath.Join(root(t), target)); err != nil {
		return "there is no " + target
	}
	if u.Fragment == "" {
		return ""
	}
	if headings[target] == nil {
		headings[target] = anchors(readDocument(t, target))
	}
	if !slices.Contains(headings[target], u.Fragment) {
		return target + " has no heading for it"
	}
	return ""
}

// anchors returns the names that GitHub gives to the headings of a document.
func anchors(text string) (names []string) {
	for _, m := range headingPattern.FindAllStringSubmatch(fencedPattern.ReplaceAllString(text, ""), -1) {
		name := strings.ToLower(strings.TrimSpace(m[1]))
		name = regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(name, "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// pathPattern matches a path below one of the folders of the repository.
var pathPattern = regexp.MustCompile(`^\.?/?(abi|sdk|host|plugins|cmd|deploy|docs|\.ci)(/[A-Za-z0-9_.*-]+)+/?$`)

// TestPathsInDocumentsExist looks at what stands in backticks: paths such as
// host/dispatch/worker.go, and files without a folder in a RATIONALE.md, which are near it.
func TestPathsInDocumentsExist(t *testing.T) {
	for _, path := range documents(t) {
		for _, quoted := range inlinePattern.FindAllString(fencedPattern.ReplaceAllString(readDocument(t, path), ""), -1) {
			name := strings.Trim(quoted, "`")
			switch {
			case pathPattern.MatchString(name):
				if !exists(t, name) {
					t.Errorf("%s: there is no %s", path, name)
				}
			case filepath.Base(path) == "RATIONALE.md" && regexp.MustCompile(`^[\w/]+\.go$`).MatchString(name):
				dir := filepath.Dir(path)
				near := []string{filepath.Join(dir, name), filepath.Join(dir, "*", name), filepath.Join(dir, "..", name), filepath.Join("host", name)}
				if !slices.ContainsFunc(near, func(pattern string) bool { return exists(t, pattern) }) {
					t.Errorf("%s: there is no %s in %s, above or below", path, name, dir)
				}
			}
		}
	}
}

func exists(t *testing.T, name string) bool {
	found, err := filepath.Glob(filepath.Join(root(t), name))
	done(t, err)
	return len(found) > 0
}

var (
	testPattern     = regexp.MustCompile(`\b(Test|Benchmark|Fuzz)[A-Z]\w*(\.\.\.)?`)
	goCodePattern   = regexp.MustCompile("(?ms)^```go$.*?^```$")
	testFuncPattern = regexp.MustCompile(`(?m)^func ((Test|Benchmark|Fuzz)\w+)\(`)
)

// TestTestsInDocumentsExist looks for the names of tests, and names that begin so.
func TestTestsInDocumentsExist(t *testing.T) {
	var names []string
	from := root(t)
	done(t, filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range testFuncPattern.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		return err
	}))
	for _, path := range documents(t) {
		text := goCodePattern.ReplaceAllString(readDocument(t, path), "") // which is the reader's
		for _, name := range testPattern.FindAllString(text, -1) {
			prefix, whole := strings.CutSuffix(name, "...")
			if !slices.ContainsFunc(names, func(n string) bool {
				return n == prefix || strings.HasPrefix(n, prefix) && (whole || inCommand(text, name))
			}) {
				t.Errorf("%s: there is no test %s", path, name)
			}
		}
	}
}

// inCommand reports whether a name is the pattern of a command such as
// go test -run TestStop, which may be a part of a name.
func inCommand(text, name string) bool {
	return regexp.MustCompile(`-(run|bench|fuzz) '?\^?` + name + `\b`).MatchString(text)
}

// commandPattern matches a command in a block of sh, or a whole one in backticks.
var commandPattern = regexp.MustCompile(`(?m)(?:^|[|&;(] *|` + "`" + `)(?:bin/)?(thole|make) +([a-z][^\n` + "`" + `|&;#]*)`)

// TestCommandsInDocumentsExist looks for commands and flags of thole, and targets of
// make.
func TestCommandsInDocumentsExist(t *testing.T) {
	if testing.Short() {
		t.Skip("builds thole")
	}
	program := thole(t)
	help := map[string]string{}
	helpOf := func(command string) string {
		if _, ok := help[command]; !ok {
			out, err := exec.Command(program, command, "--help").CombinedOutput()
			if help[command] = string(out); err != nil {
				help[command] = ""
			}
		}
		return help[command]
	}
	makefile := readDocument(t, "Makefile")
	for _, path := range documents(t) {
		for _, m := range commandPattern.FindAllStringSubmatch(readDocument(t, path), -1) {
			words := strings.Fields(m[2])
			switch m[1] {
			case "thole":
				text := helpOf(words[0])
				if text == "" {
					t.Errorf("%s: %s: thole has no such command", path, m[0])
				}
				for _, flag := range regexp.MustCompile(`(?:^|[ \[])(--?[a-zA-Z][a-z-]*)`).FindAllStringSubmatch(m[2], -1) {
					if !regexp.MustCompile(`(^|[ ,])` + flag[1] + `\b`).MatchString(text) {
						t.Errorf("%s: %s: there is no flag %s", path, m[0], flag[1])
					}
				}
			case "make":
				for _, target := range words {
					if regexp.MustCompile(`^[a-z][a-z/-]*$`).MatchString(target) && !strings.Contains(makefile, "\n"+target+":") {
						t.Errorf("%s: %s: make has no target %s", path, m[0], target)
					}
				}
			}
		}
	}
}
