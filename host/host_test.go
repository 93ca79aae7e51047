package host

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/telemetry"
	"github.com/thole-dev/thole/host/with"
	"github.com/thole-dev/thole/host/with/standard"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

var (
	podManagers = schema.GroupVersionResource{Group: "example.thole.dev", Version: "v1", Resource: "podmanagers"}
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// runningHost is a host in the process of the test, so that the race detector and
// goleak cover all of it.
type runningHost struct {
	t    *testing.T
	host *Host
	dir  string
	log  *log
	end  func() error
}

// log collects what the host logs.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// rightsFor is for how long a right of a service account is believed in the tests.
const rightsFor = 500 * time.Millisecond

// start runs a host without capabilities.
func start(t *testing.T, cluster *rest.Config, change func(*config.Config)) *runningHost {
	t.Helper()
	return startWith(t, cluster, nil, change)
}

func startWith(t *testing.T, cluster *rest.Config, capabilities with.List, change func(*config.Config)) *runningHost {
	t.Helper()
	r := &runningHost{t: t, dir: t.TempDir(), log: &log{}}
	config := config.Config{Plugins: r.dir, Listen: "127.0.0.1:0", HostIdentity: true, CacheDir: filepath.Join(t.TempDir(), "cache")}
	if change != nil {
		change(&config)
	}
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: r.log, JSONFormat: true, IndependentLevels: true})
	env := Environment{Cluster: cluster, Logger: logger, Events: telemetry.LogEvents(logger), Version: "test", RightsFor: rightsFor, Capabilities: capabilities}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.log)
		}
	})
	r.host, r.end = run(t, config, env)
	return r
}

// run runs a host until end is called, or the test ends.
func run(tb testing.TB, config config.Config, env Environment) (h *Host, end func() error) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h, err := New(ctx, config, env)
	if err != nil {
		cancel()
		tb.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	end = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	tb.Cleanup(func() {
		if err := end(); err != nil {
			tb.Error(err)
		}
	})
	return h, end
}

// sections returns what a file of --config has in the fields of capabilities.
func sections(tb testing.TB, text string) map[string]config.HostSection {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "config.yaml")
	writeText(tb, file, text)
	c, err := config.Read(file, standard.Capabilities().Sections()...)
	if err != nil {
		tb.Fatal(err)
	}
	return c.Values
}

// freeAddress returns an address of this machine that nobody listens on.
func freeAddress(tb testing.TB) string {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (r *runningHost) install(name string, wasm []byte) {
	r.t.Helper()
	writeText(r.t, filepath.Join(r.dir, name+".wasm"), string(wasm))
}

// writeText writes a file that a host watches: one that is written for a while is read before it is whole.
func writeText(tb testing.TB, path, text string) {
	tb.Helper()
	partial := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := errors.Join(os.WriteFile(partial, []byte(text), 0o644), os.Rename(partial, path)); err != nil {
		tb.Fatal(err)
	}
}

// expectState waits until the plugin's status is as wanted.
func (r *runningHost) expectState(name string, want func(catalog.Status) bool) {
	r.t.Helper()
	await.Until(r.t, "the plugin's state", func() bool {
		for _, s := range r.host.catalog.Statuses() {
			if s.Name == name {
				return want(s)
			}
		}
		return false
	})
}

// A plugin goes through its life: it waits for its CRD, runs, is replaced by a
// refused module and by another revision, and is removed.
func TestAHostLeavesNoGoroutinesBehind(t *testing.T) {
	cluster := controlPlane(t)
	goroutines := goleak.IgnoreCurrent()
	wasm := wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/podmanager")
	client := dynamic.NewForConfigOrDie(cluster)
	samples := client.Resource(podManagers).Namespace("default")

	r := startWith(t, cluster, standard.Capabilities(), nil)
	r.install("podmanager", wasm)
	r.expectState("podmanager", func(s catalog.Status) bool {
		return s.State == catalog.Waiting && strings.Contains(s.LastError, "install its CRD")
	})
	apply(t, client.Resource(crds), "../plugins/podmanager/crd.yaml")
	r.expectState("podmanager", func(s catalog.Status) bool { return s.State == catalog.Running })
	apply(t, samples, "../plugins/podmanager/sample.yaml")
	await.Until(t, "the sample is Ready", func() bool {
		o, err := samples.Get(t.Context(), "sample", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		return observed == o.GetGeneration()
	})

	r.install("podmanager", wasm[:len(wasm)/2])
	r.expectState("podmanager", func(s catalog.Status) bool {
		return s.State == catalog.Degraded && s.Revision == 1 && s.LastError != ""
	})
	r.install("podmanager", append(slices.Clip(wasm), 0, 2, 1, 'x')) // an empty custom section: another digest
	r.expectState("podmanager", func(s catalog.Status) bool { return s.Revision == 2 && s.LastError == "" })
	if err := samples.Delete(t.Context(), "sample", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the new revision cleans up", func() bool {
		_, err := samples.Get(t.Context(), "sample", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})

	if err := os.Remove(filepath.Join(r.dir, "podmanager.wasm")); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the plugin is gone", func() bool { return len(r.host.catalog.Statuses()) == 0 })
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	expectNothingLeft(t, cluster, goroutines)
}

// expectNothingLeft tolerates connections for a while: the host closes idle ones
// when it ends, but the stream of a watch that was cancelled ends in the background,
// and until then its connection is in use.
func expectNothingLeft(t *testing.T, cluster *rest.Config, before goleak.Option) {
	t.Helper()
	transport, err := rest.TransportFor(cluster) // shared by all clients of the configuration
	if err != nil {
		t.Fatal(err)
	}
	if err := await.Success(func() error {
		utilnet.CloseIdleConnectionsFor(transport)
		return goleak.Find(before)
	}); err != nil {
		t.Fatal(err)
	}
}
