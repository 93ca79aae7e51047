package devcluster

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/host/internal/await"
)

// shared is the cluster of the tests of this process.
var shared struct {
	start   sync.Once
	cluster *Cluster
	err     error
}

// Shared returns the cluster that all tests of a process share, and that the first of them starts. What
// is in no namespace of the test's own, it has to remove. With -short the test is skipped. The TestMain of the
// package must call [Main].
func Shared(tb testing.TB) *Cluster {
	tb.Helper()
	if testing.Short() {
		tb.Skip("needs a control plane")
	}
	shared.start.Do(func() { shared.cluster, shared.err = StartMain() })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.cluster
}

// Main is a TestMain: it runs the tests, and stops the cluster of [Shared] if one has started it. The tests have failed
// if that fails, or if goroutines are left.
func Main(m *testing.M) {
	code := m.Run()
	if shared.cluster != nil { // closes the connections of clients too
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if code == 0 {
		if err := await.Success(func() error { return goleak.Find() }); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
