//go:build unix

package kubernetestypes

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/discovery"

	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/internal/repository"
)

var update = flag.Bool("update", false, "write the types of sdk/kubernetes")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTypesAreThoseOfTheAPIServer generates the types again.
func TestTypesAreThoseOfTheAPIServer(t *testing.T) {
	client, err := discovery.NewDiscoveryClientForConfig(devcluster.Start(t).Config)
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := Read(t.Context(), client.RESTClient())
	if err != nil {
		t.Fatal(err)
	}
	files, err := Files(schemas)
	if err != nil {
		t.Fatal(err)
	}
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "sdk", "kubernetes")
	for pkg, want := range files {
		path := filepath.Join(folder, pkg, FileName)
		if *update {
			write(t, path, want)
		}
		if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is stale: run `go generate ./host/internal/kubernetestypes ./sdk/kubernetes`; %v", path, err)
		}
	}
	generated, err := filepath.Glob(filepath.Join(folder, "*", FileName))
	if want := slices.Sorted(maps.Keys(files)); err != nil || len(generated) != len(want) {
		t.Errorf("there are %q, want packages %q; %v", generated, want, err)
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
