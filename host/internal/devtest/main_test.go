//go:build linux

package devtest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	_ "github.com/thole-dev/thole/host" // what is tested is a process: so that cached results go with it
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

var update = flag.Bool("update", false, "write the golden files")

// program is the path of thole-tools.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		return // all of them start a control plane
	}
	var err error
	if program, err = tholetest.Program("cmd/thole-tools"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	await.Main(m, func() error { return goleak.Find() })
}
