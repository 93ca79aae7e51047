package scenario

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	_ "github.com/thole-dev/thole/host" // the tests run it as a process: their cached results must depend on it
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/repository"
)

var (
	scripts    = flag.String("scripts", "testdata", "directory of the scripts that TestScenarios runs")
	pluginsDir = flag.String("plugins", "", "directory in which the command plugin looks first: NAME.wasm, NAME.yaml, NAME/main.go")

	suite *Suite
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "scenario-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if suite, err = newSuite(dir); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, suite.Close()) }()
	return m.Run(), nil
}

func newSuite(dir string) (*Suite, error) {
	root, err := repository.Root()
	if err != nil {
		return nil, err
	}
	program, err := tholetest.Program("thole")
	if err != nil {
		return nil, err
	}
	plugins := []string{filepath.Join(root, "plugins")}
	if *pluginsDir != "" {
		absolute, err := filepath.Abs(*pluginsDir)
		if err != nil {
			return nil, err
		}
		plugins = append([]string{absolute}, plugins...)
	}
	return &Suite{Program: program, CacheDir: filepath.Join(dir, "cache"), Plugins: plugins}, nil
}

// TestScenarios runs scripts; the package comment lists what they may do.
func TestScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	testscript.Run(t, suite.Params(*scripts))
}

// TestSoakScripts runs the scripts of testdata/soak, which take minutes.
func TestSoakScripts(t *testing.T) {
	if os.Getenv("SOAK") == "" {
		t.Skip("set SOAK to run it")
	}
	testscript.Run(t, suite.Params(filepath.Join("testdata", "soak")))
}
