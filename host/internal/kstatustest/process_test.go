package kstatustest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/thole-dev/thole/host/internal/tholetest"
)

// thole runs the program with one plugin until the test ends.
func thole(t *testing.T, namespace, plugin string, wasm []byte) {
	t.Helper()
	tholeAt(t, cluster.Kubeconfig, namespace, plugin, wasm)
}

// tholeAt is thole with another kubeconfig than the administrator's.
func tholeAt(t *testing.T, kubeconfig, namespace, plugin string, wasm []byte) {
	t.Helper()
	plugins := t.TempDir()
	if err := os.WriteFile(filepath.Join(plugins, plugin+".wasm"), wasm, 0o644); err != nil {
		t.Fatal(err)
	}
	tholetest.Host{
		Program: program, Plugins: plugins, Kubeconfig: kubeconfig, CacheDir: t.TempDir(),
		Args: []string{"--namespace", namespace},
	}.Start(t)
}
