package receive

import (
	"errors"
	"net/http"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
)

// The API server that the tests share. The first test that needs it starts it.
var shared = sync.OnceValues(devcluster.StartMain)

var stopShared = func() error { return nil }

func TestMain(m *testing.M) {
	await.Main(m, func() error {
		err := stopShared()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		return errors.Join(err, goleak.Find())
	})
}
