//go:build linux

package devtest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	_ "github.com/thole-dev/thole/host" // what is tested is a process: so that cached results go with it
	"github.com/thole-dev/thole/host/internal/await"
)

var update = flag.Bool("update", false, "write the golden files")

// program is the path of thole.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		return // all of them start a control plane
	}
	dir, err := os.MkdirTemp("", "thole-devtest-")
	if err == nil {
		program, err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	await.Main(m, func() error {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		return goleak.Find()
	})
}

// build compiles thole without the race detector, which the tests of devloop
// have: here it would only be slow.
func build(dir string) (string, error) {
	path := filepath.Join(dir, "thole")
	out, err := exec.Command("go", "build", "-o", path, "github.com/thole-dev/thole/cmd/thole").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build thole: %w\n%s", err, out)
	}
	return path, nil
}
