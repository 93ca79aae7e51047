package scenario

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/thole-dev/thole/host/internal/await"
)

// TestSoakLateInformer runs a plugin that works as a ReplicaSet does while the host
// sees the children late.
func TestSoakLateInformer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	limits := map[string]string{"100ms": await.Limit.String(), "1s": await.Limit.String()} // by delay, of what must not wait for it
	if os.Getenv("SOAK") != "" {
		limits["30s"] = "10s"
	}
	for delay, limit := range limits {
		t.Run(delay, func(t *testing.T) {
			p := suite.Params("")
			p.Files = []string{filepath.Join("testdata", "late", "replicas.txtar")}
			setup := p.Setup
			p.Setup = func(env *testscript.Env) error {
				env.Setenv("DELAY", delay)
				env.Setenv("WITHIN", limit)
				return setup(env)
			}
			testscript.Run(t, p)
		})
	}
}
