package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	_ "github.com/thole-dev/thole/host" // the tests run it as a process: their cached results must depend on it
	"github.com/thole-dev/thole/host/internal/devcluster"
)

// All tests share one control plane and one build of the program.
var (
	cluster *devcluster.Cluster
	program string // the path of thole
	objects dynamic.Interface
	clients *kubernetes.Clientset
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "thole-e2e-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if program, err = build(dir); err != nil {
		return 1, err
	}
	if cluster, err = devcluster.StartMain(); err != nil {
		return 1, err
	}
	config := rest.CopyConfig(cluster.Config)
	config.QPS, config.Burst = 1000, 2000
	if objects, err = dynamic.NewForConfig(config); err == nil {
		clients, err = kubernetes.NewForConfig(config)
	}
	if err == nil {
		code = m.Run()
	}
	if stopped := cluster.Stop(); err == nil {
		err = stopped
	}
	return code, err
}

// build compiles thole, with the race detector if this test has it, except for the
// engine's compiler. With the race detector there, a plugin of standard Go takes
// 20 s of the processor to load instead of 3 s, and a busy machine exceeds the
// host's limit of a minute. The passes of the compiler have no goroutines.
//
// Packages that use sync.Map or atomic.Pointer must not be excluded: the program
// has one copy of a generic function, and if the detector's calls are missing in
// it, the detector reports races that do not exist.
func build(dir string) (string, error) {
	path := filepath.Join(dir, "thole")
	args := []string{"build", "-o", path}
	if raceDetector {
		args = append(args, "-race")
		for _, compiler := range []string{"ssa", "frontend", "backend/..."} {
			args = append(args, "-gcflags=github.com/tetratelabs/wazero/internal/engine/wazevo/"+compiler+"=-race=false")
		}
	}
	out, err := exec.Command("go", append(args, "github.com/thole-dev/thole/cmd/thole")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build thole: %w\n%s", err, out)
	}
	return path, nil
}
