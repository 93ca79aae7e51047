package scenario

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/thole-dev/thole/host/internal/wasmbuild"
)

// TestHandlers runs the scripts of testdata/handlers, with a plugin of package sdk/handlers.
func TestHandlers(t *testing.T) { testWithBothCompilers(t, "handlers") }

// TestDaemons runs the scripts of testdata/daemons, with plugins that have daemons. One of them also
// has an index by keys.
func TestDaemons(t *testing.T) { testWithBothCompilers(t, "daemons") }

// testWithBothCompilers runs the scripts of a directory with a plugin that $COMPILER has compiled.
// $OTHER is the other compiler, whose build is another revision.
func testWithBothCompilers(t *testing.T, dir string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	for i, compiler := range wasmbuild.Toolchains {
		other := wasmbuild.Toolchains[1-i]
		t.Run(string(compiler), func(t *testing.T) {
			p := suite.Params(filepath.Join("testdata", dir))
			setup := p.Setup
			p.Setup = func(env *testscript.Env) error {
				env.Setenv("COMPILER", string(compiler))
				env.Setenv("OTHER", string(other))
				return setup(env)
			}
			testscript.Run(t, p)
		})
	}
}

// TestMyKind runs the scripts of testdata/mykind, with the example of the document
// grafana-app-sdk-reconcilers and a system outside of the cluster.
func TestMyKind(t *testing.T) { testWithBothCompilers(t, "mykind") }

// TestScans runs the scripts of testdata/scans, with a plugin that has scans and gauges.
func TestScans(t *testing.T) { testWithBothCompilers(t, "scans") }
