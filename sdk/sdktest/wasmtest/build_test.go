package wasmtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root = "../../.."

// toolchains has the flags of plugin-build for each toolchain.
var toolchains = map[string][]string{"tinygo": nil, "go": {"-go"}}

var builds sync.Map // by toolchain and folder, a function that builds once

// build compiles a plugin of the repository, once per test process. With -short the
// test is skipped.
func build(tb testing.TB, toolchain, dir string) []byte {
	tb.Helper()
	if testing.Short() {
		tb.Skip("compiles a guest")
	}
	do, _ := builds.LoadOrStore(toolchain+" "+dir, sync.OnceValues(func() ([]byte, error) {
		return compile(toolchains[toolchain], dir)
	}))
	wasm, err := do.(func() ([]byte, error))()
	if err != nil {
		tb.Fatalf("build %s with %s: %v", dir, toolchain, err)
	}
	return wasm
}

func compile(flags []string, dir string) ([]byte, error) {
	if err := readSources(dir, "plugins/kopfexample/kex", "sdk", "abi"); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "wasmtest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	out := filepath.Join(folder, "plugin.wasm")
	cmd := exec.Command(filepath.Join(root, ".ci/tools/plugin-build"), append(flags, "-o", out, filepath.Join(root, dir))...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, &buildError{err, text}
	}
	return os.ReadFile(out)
}

type buildError struct {
	error
	text []byte
}

func (e *buildError) Error() string { return e.error.Error() + "\n" + string(e.text) }

// readSources reads the sources of a build, so that the go command does not use a
// cached test result after a change.
func readSources(folders ...string) error {
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				_, err = os.ReadFile(path)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
