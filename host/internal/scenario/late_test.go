package scenario

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestSoakLateInformer runs a plugin that works as a ReplicaSet does while the host
// sees the children late.
func TestSoakLateInformer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	delays := []string{"100ms", "1s"}
	if os.Getenv("SOAK") != "" {
		delays = append(delays, "30s")
	}
	for _, delay := range delays {
		t.Run(delay, func(t *testing.T) {
			p := suite.Params("")
			p.Files = []string{filepath.Join("testdata", "late", "replicas.txtar")}
			setup := p.Setup
			p.Setup = func(env *testscript.Env) error {
				env.Setenv("DELAY", delay)
				return setup(env)
			}
			testscript.Run(t, p)
		})
	}
}
