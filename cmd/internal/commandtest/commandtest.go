// Package commandtest has what the tests of thole and of thole-tools share.
package commandtest

import (
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/cmd/internal/command"
)

// Repository is the path of the repository from the folder of a program, in which tests run.
const Repository = "../.."

var update = flag.Bool("update", false, "write what the scripts of testdata show into them")

// Main runs the tests of a program. Scripts run it as thole.
func Main(m *testing.M, root func() *cobra.Command) {
	testscript.Main(m, map[string]func(){"thole": func() { os.Exit(command.Main(root)) }})
}

// RunScripts runs the scripts of testdata/script with additional commands.
func RunScripts(t *testing.T, commands map[string]func(*testscript.TestScript, bool, []string)) {
	t.Helper()
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Cmds: commands, UpdateScripts: *update})
}

// ExpectExitCodes runs command lines of a program and compares their exit codes.
func ExpectExitCodes(t *testing.T, root func() *cobra.Command, lines map[string]int) {
	t.Helper()
	for line, want := range lines {
		if got := command.Execute(t.Context(), root(), strings.Fields(line), io.Discard, io.Discard); got != want {
			t.Errorf("thole %s: exit code %d, want %d", line, got, want)
		}
	}
}

// DependOn looks at all files of folders of the repository: that is how the go
// command learns that a cached test result depends on them.
func DependOn(folders ...string) error {
	var errs []error
	for _, folder := range folders {
		errs = append(errs, filepath.WalkDir(filepath.Join(Repository, folder), func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(path)
			}
			return err
		}))
	}
	return errors.Join(errs...)
}
