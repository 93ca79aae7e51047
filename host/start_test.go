package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/with"
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

// weight is a section of policies that the configuration bounds.
type weight struct {
	Grams int `json:"grams,omitempty"`
}

func (*weight) Problems(*field.Path, string, config.Ceiling) []error { return nil }

func (*weight) Secrets() []rights.SecretRef { return nil }

func (w *weight) Numbers(at *field.Path) []config.Number {
	return []config.Number{config.NumberOf(at.Child("grams"), &w.Grams, 1, 100)}
}

// hostWeight is the field of the configuration.
type hostWeight weight

func (w *hostWeight) Problems(*field.Path) []error { return nil }

func (w *hostWeight) Bounds() config.PolicySection { return (*weight)(w) }

func TestTheFileOfAHostBoundsTheSectionsOfPolicies(t *testing.T) {
	capabilities := with.List{{
		Name:   "weight",
		Policy: func() config.PolicySection { return &weight{Grams: 5} },
		Config: func() config.HostSection { return &hostWeight{Grams: 5} },
	}}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("weight: {grams: 4}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Read(file, capabilities.Sections()...)
	if err != nil {
		t.Fatal(err)
	}
	c.Plugins, c.CacheDir, c.Listen = t.TempDir(), t.TempDir(), "127.0.0.1:0"
	h, err := New(t.Context(), c, Environment{Cluster: &rest.Config{Host: "http://127.0.0.1:1"}, Logger: hclog.NewNullLogger(), Capabilities: capabilities})
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.config.ReadPolicy("p", []byte("apiVersion: thole.dev/v1alpha1\nweight: {grams: 5}"))
	if err == nil || !strings.Contains(err.Error(), "must be at most 4, the host's limit") {
		t.Errorf("a policy may have more than the file: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := h.Run(ended); err != nil {
		t.Error(err)
	}
}
