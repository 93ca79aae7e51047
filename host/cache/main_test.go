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

// TestMain looks for goroutines that the tests leave behind, and stops the API
// server if one of them started it.
func TestMain(m *testing.M) {
	code := m.Run()
	if shared.cluster != nil { // its end closes the connections of the tests' own clients
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
