package wasmtest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/thole-dev/thole/sdk/sdktest/wasmtest"
)

// TestFileNamesPluginLikeFile: the host refuses a plugin with another name.
func TestFileNamesPluginLikeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ttl.wasm")
	if err := os.WriteFile(path, build(t, ttlDir), 0o600); err != nil {
		t.Fatal(err)
	}
	w := wasmtest.File(t, path, "configmap")
	w.Create(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"c"}}`)
	w.Reconcile("default/c").ExpectEmpty().ExpectNoWrites()
}
