package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/tck"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/sandbox"
)

func guestMemory(t *testing.T, bytes uint64) loader {
	t.Helper()
	s, err := sandbox.New(t.Context(), sandbox.Config{MemoryBytes: bytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return loader{sandbox: s, config: Config{}.WithDefaults()}
}

func tckModule(t *testing.T, name string) *catalog.Module {
	t.Helper()
	c, ok := tck.CaseOf(name)
	if !ok {
		t.Fatalf("the kit has no case %q", name)
	}
	wasm := c.Wasm()
	return &catalog.Module{
		Name: name, Digest: fmt.Sprintf("%x", sha256.Sum256(wasm)),
		Read: func() ([]byte, error) { return wasm, nil },
	}
}

// TestLoadWaitsForMemory: a plugin for which there is no memory now is loaded
// when there is.
func TestLoadWaitsForMemory(t *testing.T) {
	_, err := guestMemory(t, 100_000).Load(t.Context(), tckModule(t, "correct"))
	if _, waits := errors.AsType[*catalog.WaitError](err); !waits || !strings.Contains(err.Error(), "raise guestMemoryMiB") {
		t.Errorf("got %v", err)
	}
}

func TestBombIsToBlame(t *testing.T) {
	g, err := guestMemory(t, 4<<20).Load(t.Context(), tckModule(t, "memory-bomb"))
	if err != nil {
		t.Fatal(err)
	}
	guest := dispatchGuest{g.(*sandbox.Guest)}
	_, err = guest.Reconcile(t.Context(), dispatch.Call{Request: tck.Request()})
	if f, ok := errors.AsType[*dispatch.Fault](err); !ok || f.Class != abi.ClassOutOfMemory || !strings.Contains(f.Message, "the host's memory for plugins is used up") {
		t.Errorf("got %v", err)
	}
}

// TestGuestMemoryOfTheConfiguration: it reaches the sandbox, and the metrics.
func TestGuestMemoryOfTheConfiguration(t *testing.T) {
	config := Config{Plugins: t.TempDir(), Listen: "127.0.0.1:0", CacheDir: filepath.Join(t.TempDir(), "cache"), GuestMemoryMiB: 7}
	nowhere := Environment{Cluster: &rest.Config{Host: "http://127.0.0.1:1"}, Logger: hclog.NewNullLogger()}
	h, err := New(t.Context(), config, nowhere)
	if err != nil {
		t.Fatal(err)
	}
	err = testutil.GatherAndCompare(h.metrics.Registry, strings.NewReader(`
# HELP thole_guest_memory_limit_bytes Memory that the instances and images of all plugins may have together.
# TYPE thole_guest_memory_limit_bytes gauge
thole_guest_memory_limit_bytes 7.340032e+06
`), "thole_guest_memory_limit_bytes")
	if err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := h.Run(ended); err != nil {
		t.Error(err)
	}
}
