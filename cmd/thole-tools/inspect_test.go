package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/cmd/internal/commandtest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// scriptCommands are what scripts can do besides running thole:
//
//	plugin NAME    builds plugins/NAME into NAME.wasm
//	guest CASE     writes the conformance kit's guest into CASE.wasm
//	cut FILE N     keeps the first N bytes of a file
//	mask FILE      writes the last command's output into a file, without what
//	               is another with each compiler: digest, size and version
var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"plugin": func(ts *testscript.TestScript, _ bool, args []string) {
		wasm, err := wasmbuild.Module(wasmbuild.TinyGo, "plugins/"+args[0])
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(args[0]+".wasm"), wasm, 0o600))
	},
	"guest": func(ts *testscript.TestScript, _ bool, args []string) {
		c, ok := tck.CaseOf(args[0])
		if !ok {
			ts.Fatalf("the kit has no case %q", args[0])
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[0]+".wasm"), c.Wasm(), 0o600))
	},
	"cut": func(ts *testscript.TestScript, _ bool, args []string) {
		var n int64
		_, err := fmt.Sscan(args[1], &n)
		ts.Check(errors.Join(err, os.Truncate(ts.MkAbs(args[0]), n)))
	},
	"mask": func(ts *testscript.TestScript, _ bool, args []string) {
		text := ts.ReadFile("stdout")
		for _, m := range masks {
			text = m.pattern.ReplaceAllString(text, m.with)
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
	},
}

var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "DIGEST"},
	{regexp.MustCompile(`(?m)^(Size +)[0-9.]+ [KM]iB$`), "${1}SIZE"},
	{regexp.MustCompile(`(?m)^( *"?size"?: )[0-9]+`), "${1}SIZE"},
	{regexp.MustCompile(`TinyGo [0-9.]+[0-9]`), "TinyGo VERSION"},
}

func TestInspectExitCodes(t *testing.T) {
	inDirectoryOfGuests(t)
	commandtest.ExpectExitCodes(t, rootCommand, map[string]int{
		"inspect --help":                        0,
		"inspect echo.wasm":                     0,
		"inspect echo.wasm -o json":             0,
		"inspect -o yaml echo.wasm":             0,
		"inspect unknown-import.wasm":           1,
		"inspect missing.wasm":                  1,
		"inspect .":                             1,
		"inspect echo.wasm --kubeconfig none":   1,
		"inspect":                               2,
		"inspect echo.wasm unknown-import.wasm": 2,
		"inspect echo.wasm -o xml":              2,
		"inspect echo.wasm --nonsense":          2,
		"inspect echo.wasm --config none.yaml":  2,
	})
}

// inDirectoryOfGuests makes the working directory one that has guests of the conformance kit: one that is loaded and one
// that is refused.
func inDirectoryOfGuests(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range []string{"echo", "unknown-import"} {
		c, ok := tck.CaseOf(name)
		if !ok {
			t.Fatalf("the kit has no case %q", name)
		}
		if err := os.WriteFile(name+".wasm", c.Wasm(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
