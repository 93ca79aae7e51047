//go:build unix

package doctest

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Metrics: the calls of functions named counter, gauge and histogram with the name
// of a metric, its help, and its labels.

var metricName = regexp.MustCompile(`^(thole|leader_election|controller_runtime|workqueue|rest_client)_[a-z_]+$`)

func metricTable(t *testing.T) string {
	var rows [][]string
	described := map[string]bool{}
	files := append(parseDir(t, "host/telemetry"), parseDir(t, "host")...)
	for _, dir := range capabilityDirs(t) {
		files = append(files, parseDir(t, dir)...)
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok {
				for _, row := range metricsOf(f) {
					described[row[0]] = true
					rows = append(rows, row)
				}
				return false
			}
			return true
		})
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			text, ok := n.(ast.Expr)
			if name := stringOf(text); ok && metricName.MatchString(name) && !described[code(name)] {
				t.Errorf("%s is the name of a metric whose help and labels were not found", name)
			}
			return true
		})
	}
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return table([]string{"metric", "type", "labels", ""}, rows)
}

// metricsOf returns the metrics that a function makes.
func metricsOf(f *ast.FuncDecl) (rows [][]string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		for i, arg := range call.Args {
			if metricName.MatchString(stringOf(arg)) {
				var labels []string
				for _, label := range call.Args[i+2:] {
					labels = append(labels, labelsOf(f, label)...)
				}
				rows = append(rows, []string{
					code(stringOf(arg)), strings.ToLower(calledFunction(call)), strings.Join(labels, " "), sentence(stringOf(call.Args[i+1])),
				})
			}
		}
		return true
	})
	return rows
}

func calledFunction(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// labelsOf returns the labels in an argument: a string, prometheus.Labels, or a
// variable that has these.
func labelsOf(f *ast.FuncDecl, arg ast.Expr) (labels []string) {
	if label := stringOf(arg); label != "" {
		return []string{code(label)}
	}
	if variable, ok := arg.(*ast.Ident); ok {
		arg = assigned(f, variable.Name)
	}
	if literal, ok := arg.(*ast.CompositeLit); ok {
		for _, e := range literal.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok && stringOf(pair.Key) != "" {
				labels = append(labels, code(stringOf(pair.Key)))
			}
		}
	}
	return labels
}

// assigned returns what a function assigns to a variable, nil if nothing.
func assigned(f *ast.FuncDecl, variable string) (value ast.Expr) {
	ast.Inspect(f, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 {
			if id, ok := a.Lhs[0].(*ast.Ident); ok && id.Name == variable {
				value = a.Rhs[0]
			}
		}
		return true
	})
	return value
}
