package cache

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
)

// TestMain stops the API server if a test has started it, and fails if tests have
// leaked goroutines.
func TestMain(m *testing.M) {
	code := m.Run()
	if shared.cluster != nil { // closes the connections of the clients of tests
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code == 0 {
		if err := await.Success(func() error { return goleak.Find() }); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

var shared struct {
	start   sync.Once
	cluster *devcluster.Cluster
	err     error
}

// realServer returns the package's API server.
func realServer(t testing.TB) *devcluster.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts an API server")
	}
	shared.start.Do(func() { shared.cluster, shared.err = devcluster.StartMain() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}
