package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"thole": func() { os.Exit(Main()) }})
}

// TestScripts runs what people type, and shows what they get.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Cmds: scriptCommands, UpdateScripts: *update})
}

func TestExitCodes(t *testing.T) {
	expectExitCodes(t, map[string]int{
		"--help":                             0,
		"run --help":                         0,
		"":                                   2,
		"walk":                               2,
		"run --nonsense":                     2,
		"run extra":                          2,
		"run":                                2,
		"run --plugins d --config none.yaml": 2,
		"run --plugins d --log-format xml":   2,
		"run --plugins d --kubeconfig none":  1,
	})
}

func expectExitCodes(t *testing.T, commands map[string]int) {
	t.Helper()
	for command, want := range commands {
		if got := execute(t.Context(), strings.Fields(command), io.Discard, io.Discard); got != want {
			t.Errorf("thole %s: exit code %d, want %d", command, got, want)
		}
	}
}
