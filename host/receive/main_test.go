package receive

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
)

// The API server that the tests share. The first test that needs it starts it.
var shared = sync.OnceValues(devcluster.StartMain)

var started bool

func TestMain(m *testing.M) {
	code := m.Run()
	if started {
		if cluster, err := shared(); err == nil {
			if err := cluster.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
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
