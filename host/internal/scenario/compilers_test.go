package scenario

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/thole-dev/thole/internal/wasmbuild"
)

// TestHandlers runs the scripts of testdata/handlers, with a plugin of package sdk/handlers.
func TestHandlers(t *testing.T) { suite.testCompiled(t, "handlers", wasmbuild.TinyGo) }

// TestDaemons runs the scripts of testdata/daemons, with plugins that have daemons. One of them also
// has an index by keys.
func TestDaemons(t *testing.T) { suite.testCompiled(t, "daemons", wasmbuild.TinyGo) }

// TestMyKind runs the scripts of testdata/mykind, with the example of the document
// grafana-app-sdk-reconcilers and a system outside of the cluster.
func TestMyKind(t *testing.T) { suite.testCompiled(t, "mykind", wasmbuild.TinyGo) }

// TestScans runs the scripts of testdata/scans, with a plugin that has scans and gauges.
func TestScans(t *testing.T) { suite.testCompiled(t, "scans", wasmbuild.TinyGo) }

// TestRelease_CompiledByGo runs the scripts of the tests above and of [TestReplicaSet] with plugins that Go
// has compiled.
func TestRelease_CompiledByGo(t *testing.T) {
	for _, dir := range []string{"handlers", "daemons", "mykind", "scans"} {
		t.Run(dir, func(t *testing.T) { suite.testCompiled(t, dir, wasmbuild.Go) })
	}
	t.Run("replicaset", func(t *testing.T) { newReplicaSetSuite(t).testCompiled(t, "replicaset", wasmbuild.Go) })
}

// testCompiled runs the scripts of a directory with plugins that $COMPILER has compiled.
func (s *Suite) testCompiled(t *testing.T, dir string, compiler wasmbuild.Toolchain) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	testscript.Run(t, s.compilerParams(dir, compiler))
}

// compilerParams returns the parameters for the scripts of a directory. $COMPILER is the compiler, $OTHER
// the other one, whose build is another revision.
func (s *Suite) compilerParams(dir string, compiler wasmbuild.Toolchain) testscript.Params {
	p := s.Params(filepath.Join("testdata", dir))
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("COMPILER", string(compiler))
		env.Setenv("OTHER", string(otherThan(compiler)))
		return setup(env)
	}
	return p
}

// otherThan returns the other compiler.
func otherThan(compiler wasmbuild.Toolchain) wasmbuild.Toolchain {
	return wasmbuild.Toolchains[1-slices.Index(wasmbuild.Toolchains, compiler)]
}
