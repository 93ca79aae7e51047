package kstatustest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// thole runs the program with one plugin until the test ends.
func thole(t *testing.T, namespace, plugin string, wasm []byte) {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	plugins := filepath.Join(dir, "plugins")
	if err := os.Mkdir(plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{
		filepath.Join(plugins, plugin+".wasm"): wasm,
		config:                                 []byte("limits: {writesPerSecond: 500, writeBurst: 500}"),
	} {
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	log := &transcript{}
	cmd := exec.Command(program, "run", "--plugins", plugins, "--kubeconfig", cluster.Kubeconfig,
		"--namespace", namespace, "--config", config, "--host-identity", "--listen", "127.0.0.1:0", "--log-level", "debug")
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // Wait tells if it has ended before
		kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("thole ended with %v", err)
		}
		if t.Failed() {
			t.Logf("log of thole:\n%s", log.tail(40))
		}
	})
}

// transcript collects the log.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *transcript) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *transcript) tail(n int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(w.text.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
