package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/repository"
)

// nativeEcho builds host/internal/nativeecho, in its own module, and returns the path
// of the program.
var nativeEcho = sync.OnceValues(func() (string, error) {
	root, err := repository.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(scratch, "nativeecho")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".")
	build.Dir = filepath.Join(root, "host", "internal", "nativeecho")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build nativeecho: %w\n%s", err, out)
	}
	return path, nil
})

// startNativeEcho starts the controller on controller-runtime and waits until its
// informers have synced.
func startNativeEcho(tb testing.TB, ns string) (pid int, stop func()) {
	tb.Helper()
	path, err := nativeEcho()
	must(tb, err)
	cmd := exec.Command(path, "--kubeconfig", cluster.Kubeconfig, "--namespace", ns, "--concurrency", fmt.Sprint(echoConcurrency))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	must(tb, errors.Join(err, cmd.Start()))
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(await.Limit, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			tb.Errorf("nativeecho: %v: %s", err, &stderr)
		}
	})
	tb.Cleanup(stop)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		stop()
		tb.Fatalf("nativeecho printed %q and not that it is ready: %v", line, err)
	}
	return cmd.Process.Pid, stop
}
