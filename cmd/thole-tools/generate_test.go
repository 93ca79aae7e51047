package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/thole-dev/thole/cmd/internal/command"
	"github.com/thole-dev/thole/cmd/internal/commandtest"
)

// The additional script command
//
//	module
//
// makes the directory an author's module that uses the SDK of this repository.
func init() {
	scriptCommands["module"] = func(ts *testscript.TestScript, _ bool, _ []string) {
		ts.Check(commandtest.DependOn("abi", "sdk"))
		root, err := filepath.Abs(commandtest.Repository)
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
	commandtest.ExpectExitCodes(t, rootCommand, map[string]int{
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

// A spec of 2,400 fields in 120 structs is as large as the largest of public operators. Each
// function of its codec is called once.
func TestLargeSpecsAreLoaded(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles by TinyGo")
	}
	var large strings.Builder
	large.WriteString("package main\n\nimport \"github.com/thole-dev/thole/sdk\"\n\ntype Part[T any] struct {\n")
	for i := range 20 {
		fmt.Fprintf(&large, "\tF%d *string `json:\"f%d,omitempty\"`\n\tL%d []string `json:\"l%d,omitempty\"`\n", i, i, i, i)
	}
	large.WriteString("}\n\ntype Spec struct {\n")
	for i := range 60 {
		fmt.Fprintf(&large, "\tP%d *Part[[%d]int] `json:\"p%d,omitempty\"`\n", i, i, i)
	}
	large.WriteString(`}

func init() {
	sdk.Register(sdk.Controller[Spec, struct{}]{
		Name: "large", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Large"},
		Reconcile: func(*sdk.Request[Spec, struct{}]) (sdk.Action, error) { return sdk.AwaitChange(), nil },
	})
}

func main() {}
`)
	root, err := filepath.Abs(commandtest.Repository)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	for name, content := range map[string]string{
		"go.mod":  "module example.com/large\n\ngo 1.26.0\n\nrequire github.com/thole-dev/thole v0.0.0\n\nreplace github.com/thole-dev/thole => " + root + "\n",
		"go.sum":  string(sums),
		"main.go": large.String(),
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tinygo := filepath.Join(root, ".tools", "tinygo", "bin", "tinygo")
	for _, line := range []string{"generate", "build --tinygo " + tinygo + " -o large.wasm .", "inspect large.wasm"} {
		var said strings.Builder
		if code := command.Execute(t.Context(), rootCommand(), strings.Fields(line), &said, &said); code != 0 {
			t.Fatalf("thole %s: exit code %d: %s", line, code, &said)
		}
	}
}

func TestGenerateNeedsGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, args := range [][]string{{"generate"}, {"generate", "crd"}} {
		var stderr strings.Builder
		if code := command.Execute(t.Context(), rootCommand(), args, &strings.Builder{}, &stderr); code != 1 || !strings.Contains(stderr.String(), "needs the go command") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr.String())
		}
	}
}
