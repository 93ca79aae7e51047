//go:build unix

package doctest

import (
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

//go:generate go test -count=1 -run=TestReferenceIsCurrent|TestAliases . -update

var update = flag.Bool("update", false, "write the generated parts of docs/reference, and of the comments in sdk")

// The generated part of a document is between two comments.
var (
	generatedPart  = regexp.MustCompile(`(?s)<!-- generated: ([a-z-]+) -->\n(.*?)<!-- end: ([a-z-]+) -->\n`)
	generatedParts = map[string]func(*testing.T) string{
		"cli":    commandLine,
		"config": configTable,
		"election": func(t *testing.T) string {
			return fieldTable(t, "host/with/leaderelection", "HostSettings", "leaderElection.")
		},
		"election-policy": func(t *testing.T) string {
			return fieldTable(t, "host/with/leaderelection", "Settings", "leaderElection.")
		},
		"webhooks":         func(t *testing.T) string { return fieldTable(t, "host/with/webhooks", "HostSettings", "webhooks.") },
		"webhooks-service": func(t *testing.T) string { return fieldTable(t, "host/with/webhooks", "Service", "webhooks.service.") },
		"webhooks-secret":  func(t *testing.T) string { return fieldTable(t, "host/with/webhooks", "Secret", "webhooks.secret.") },
		"webhooks-policy":  func(t *testing.T) string { return fieldTable(t, "host/with/webhooks", "Settings", "webhooks.") },
		"config-metrics":   func(t *testing.T) string { return fieldTable(t, "host/config", "Metrics", "metrics.") },
		"tracing":          func(t *testing.T) string { return fieldTable(t, "host/with/traces", "Settings", "tracing.") },
		"allow":            allowTable,
		"limits":           func(t *testing.T) string { return fieldTable(t, "host/config", "Limits", "limits.") },
		"policy":           policyTable,
		"entry":            func(t *testing.T) string { return fieldTable(t, "host/rights", "Entry", "") },
		"daemon":           func(t *testing.T) string { return fieldTable(t, "host/with/daemon", "Policy", "daemon.") },
		"http":             func(t *testing.T) string { return fieldTable(t, "host/with/http", "HostSettings", "http.") },
		"http-policy":      func(t *testing.T) string { return fieldTable(t, "host/with/http", "Settings", "http.") },
		"http-host":        func(t *testing.T) string { return fieldTable(t, "host/with/http/egress", "Entry", "") },
		"cloudevents":      func(t *testing.T) string { return fieldTable(t, "host/with/cloudevents", "Settings", "") },
		"sink":             func(t *testing.T) string { return fieldTable(t, "host/with/cloudevents", "Sink", "") },
		"receives":         func(t *testing.T) string { return fieldTable(t, "host/with/receives", "HostSettings", "receives.") },
		"receives-policy":  func(t *testing.T) string { return fieldTable(t, "host/with/receives", "Settings", "receives.") },
		"metrics":          metricTable,
		"annotations":      annotationTable,
		"names":            nameTable,
		"conditions":       conditionTable,
		"pod-events":       podEventTable,
		"plugin-states":    stateTable,
		"load-steps":       stepTable,
		"log-events":       logEventTable,
	}
)

// TestReferenceIsCurrent generates the parts of docs/reference that come from the
// code.
func TestReferenceIsCurrent(t *testing.T) {
	documents, err := filepath.Glob(filepath.Join(root(t), "docs", "reference", "*.md"))
	done(t, err)
	unused := maps.Clone(generatedParts)
	for _, path := range documents {
		name := "docs/reference/" + filepath.Base(path)
		text, err := os.ReadFile(path)
		done(t, err)
		current := generatedPart.ReplaceAllStringFunc(string(text), func(part string) string {
			m := generatedPart.FindStringSubmatch(part)
			generate := generatedParts[m[1]]
			if generate == nil || m[3] != m[1] {
				t.Fatalf("%s: there is no part %q, or it ends as %q", name, m[1], m[3])
			}
			delete(unused, m[1])
			return fmt.Sprintf("<!-- generated: %[1]s -->\n\n%[2]s\n<!-- end: %[1]s -->\n", m[1], generate(t))
		})
		switch {
		case current == string(text):
		case *update:
			done(t, os.WriteFile(path, []byte(current), 0o644))
		default:
			t.Errorf("%s is not that of the code: run `go generate ./host/internal/doctest` and look at the difference\n%s", name, firstDifference(string(text), current))
		}
	}
	if len(unused) > 0 {
		t.Errorf("docs/reference has no place for the parts %q", slices.Sorted(maps.Keys(unused)))
	}
}

func firstDifference(a, b string) string {
	was, is := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			return fmt.Sprintf("line %d is   %s\nit should be %s", i+1, was[i], is[i])
		}
	}
	return "one of them is longer"
}

// table returns a table of Markdown.
func table(header []string, rows [][]string) string {
	var out strings.Builder
	write := func(cells []string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | ")) }
	write(header)
	write(slices.Repeat([]string{"---"}, len(header)))
	for _, row := range rows {
		cells := slices.Clone(row)
		for i := range cells {
			cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
		}
		write(cells)
	}
	return out.String()
}

func code(s string) string { return "`" + s + "`" }

// sentence returns the text of a comment on one line, without the links of Go.
func sentence(comment string) string {
	comment = regexp.MustCompile(`\[([A-Za-z.]+)\]`).ReplaceAllString(strings.Join(strings.Fields(comment), " "), "$1")
	switch {
	case comment == "":
		return ""
	case !strings.Contains(comment, " "): // a name
		return code(comment)
	}
	return strings.ToUpper(comment[:1]) + strings.TrimSuffix(comment[1:], ".")
}

// The command line.

func commandLine(t *testing.T) string {
	program := thole(t)
	help := func(args ...string) string {
		out, err := exec.Command(program, append(args, "--help")...).Output()
		done(t, err)
		return strings.TrimSpace(string(out))
	}
	var out strings.Builder
	var describe func(args []string, overview string)
	describe = func(args []string, overview string) {
		_, list, _ := strings.Cut(overview, "Available Commands:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		for line := range strings.Lines(list) {
			command := append(slices.Clone(args), strings.Fields(line)[0])
			if command[len(args)] == "help" {
				continue
			}
			text := help(command...)
			fmt.Fprintf(&out, "## thole %s\n\n```\n%s\n```\n\n", strings.Join(command, " "), text)
			describe(command, text)
		}
	}
	describe(nil, help())
	return strings.TrimSpace(out.String()) + "\n"
}

// parseDir parses the files of a package, without its tests.
func parseDir(t *testing.T, dir string) (files []*ast.File) {
	paths, err := filepath.Glob(filepath.Join(root(t), dir, "*.go"))
	done(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		done(t, err)
		files = append(files, file)
	}
	return files
}

// stringOf returns the value of a string literal, "" of anything else.
func stringOf(e ast.Expr) string {
	text, ok := e.(*ast.BasicLit)
	if !ok || text.Kind != token.STRING {
		return ""
	}
	return constant.StringVal(constant.MakeFromLiteral(text.Value, token.STRING, 0))
}
