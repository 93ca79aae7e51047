package host

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
)

// That is no failure of the host.
func TestAHostThatIsStoppedWhileItStartsEndsInOrder(t *testing.T) {
	goroutines := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h, err := New(ctx, config.Config{
		Plugins: t.TempDir(), Listen: "localhost:0", HostIdentity: true, CacheDir: filepath.Join(t.TempDir(), "cache"),
	}, Environment{Cluster: &rest.Config{Host: "http://127.0.0.1:1"}, Logger: hclog.NewNullLogger(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Run(ctx); err != nil {
		t.Error(err)
	}
	if err := await.Success(func() error { return goleak.Find(goroutines) }); err != nil {
		t.Error(err)
	}
}

func TestConfiguredProbationReachesTheCatalog(t *testing.T) {
	for _, want := range []time.Duration{0, time.Hour} {
		c := config.Config{
			Plugins: t.TempDir(), CacheDir: t.TempDir(), Listen: "127.0.0.1:0", Probation: &config.Duration{Duration: want},
		}
		h, err := New(t.Context(), c, Environment{Cluster: &rest.Config{Host: "http://127.0.0.1:1"}, Logger: hclog.NewNullLogger()})
		if err != nil {
			t.Fatal(err)
		}
		if got := h.catalog.Probation; got != want {
			t.Errorf("the catalog has a probation of %s, want %s", got, want)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := h.Run(ended); err != nil {
			t.Error(err)
		}
	}
}
