package leaderelection

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with/leaderelection/lastgood"
)

// TestAModuleThatIsNotKeptIsAProblem: /plugins tells it before anything is rolled back.
func TestAModuleThatIsNotKeptIsAProblem(t *testing.T) {
	large := make([]byte, lastgood.MaxSecret+1<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large) // never fails
	m := &catalog.Module{Name: "p", Digest: lastgood.Digest(large), Read: func() ([]byte, error) { return large, nil }}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		t.TempDir(): "the last good module is in the cache directory alone, which ends with the pod if it is an emptyDir: the module takes 1025 KiB compressed",
		file:        "the last good module is not kept: in the cache directory: ",
	} {
		k, err := newKept(runner.Environment{CacheDir: dir, Clients: &kube.Clients{Secrets: func(string) kube.Secrets { return nil }}, MaxModule: 16 << 20}, newHostSettings(), "ns", hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		if p := k.problem("p"); p != "" {
			t.Errorf("before it is tried: %q", p)
		}
		k.save(m)
		anywhere := k.share(t.Context(), "p", m.Digest, "")
		if p := k.problem("p"); !strings.HasPrefix(p, want) || anywhere != (dir != file) {
			t.Errorf("%q, anywhere %t, want %q", p, anywhere, want)
		}
	}
}
