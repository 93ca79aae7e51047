package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The additional script command
//
//	module
//
// makes the directory an author's module that uses the SDK of this repository.
func init() {
	scriptCommands["module"] = func(ts *testscript.TestScript, _ bool, _ []string) {
		ts.Check(dependOn("abi", "sdk"))
		root, err := filepath.Abs(repository)
		ts.Check(err)
		sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
		ts.Check(err)
		mod := fmt.Sprintf("module example.com/mine\n\ngo 1.26.0\n\nrequire %[1]s v0.0.0\n\nreplace %[1]s => %s\n", "github.com/thole-dev/thole", root)
		ts.Check(os.WriteFile(ts.MkAbs("go.mod"), []byte(mod), 0o600))
		ts.Check(os.WriteFile(ts.MkAbs("go.sum"), sums, 0o600))
		for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOTOOLCHAIN"} {
			value, err := exec.Command("go", "env", name).Output()
			ts.Check(err)
			ts.Setenv(name, strings.TrimSpace(string(value)))
		}
	}
}

func TestGenerateExitCodes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	expectExitCodes(t, map[string]int{
		"generate --help":          0,
		"generate .":               1, // this package has no types for a codec
		"generate ./missing":       1,
		"generate --check ../none": 1,
		"generate --nonsense":      2,

		"generate crd --help":             0,
		"generate crd":                    1, // this package has no controller
		"generate crd ./missing":          1,
		"generate crd a b":                2,
		"generate crd --check --output -": 2,
	})
}

func TestGenerateNeedsGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, args := range [][]string{{"generate"}, {"generate", "crd"}} {
		var stderr strings.Builder
		if code := execute(t.Context(), args, &strings.Builder{}, &stderr); code != 1 || !strings.Contains(stderr.String(), "needs the go command") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr.String())
		}
	}
}
