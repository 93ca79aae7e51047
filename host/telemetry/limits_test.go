package telemetry

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestLimitsHaveThoseOfTheSandbox: a limit that is counted there and missing
// here would have no series. The constants are read, as stages do not import
// each other.
func TestLimitsHaveThoseOfTheSandbox(t *testing.T) {
	want := append(limitsOfSandbox(t), "intents", "writes", "events")
	if got := Limits(); !slices.Equal(got, want) {
		t.Errorf("limits are %q, the sandbox's and ours are %q", got, want)
	}
}

func limitsOfSandbox(t *testing.T) (limits []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../sandbox/limits.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Limit") {
			return true
		}
		limit, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, limit)
		return true
	})
	return limits
}
