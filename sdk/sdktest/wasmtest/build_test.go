package wasmtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/internal/wasmbuild"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// build compiles a plugin of the repository. dir is relative to its root.
func build(tb testing.TB, dir string) []byte {
	tb.Helper()
	return wasmbuild.Build(tb, wasmbuild.TinyGo, dir)
}
