package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	_ "github.com/thole-dev/thole/host" // the tests run it as a process: their cached results must depend on it
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/repository"
)

var suite *Suite

func TestMain(m *testing.M) {
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
	program, err := tholetest.Program("cmd/thole")
	if err != nil {
		return nil, err
	}
	return &Suite{Program: program, CacheDir: filepath.Join(dir, "cache"), Plugins: []string{filepath.Join(root, "plugins")}}, nil
}

// TestScenarios runs scripts; the package comment lists what they may do.
func TestScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	testscript.Run(t, suite.Params("testdata"))
}

// TestSoakScripts runs the scripts of testdata/soak, which take minutes.
func TestSoakScripts(t *testing.T) {
	if os.Getenv("SOAK") == "" {
		t.Skip("set SOAK to run it")
	}
	testscript.Run(t, suite.Params(filepath.Join("testdata", "soak")))
}
