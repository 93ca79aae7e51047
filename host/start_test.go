package host

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/internal/await"
)

// TestAHostThatIsStoppedWhileItStarts ends as one that runs: whoever stops it
// has nothing to correct.
func TestAHostThatIsStoppedWhileItStarts(t *testing.T) {
	goroutines := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h, err := New(ctx, Config{
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
