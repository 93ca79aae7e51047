package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	_ "github.com/thole-dev/thole/host" // the tests run it as a process: their cached results must depend on it
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// All tests share one control plane and one build of the program.
var (
	cluster *devcluster.Cluster
	program string // the path of thole
	scratch string // directory for what tests share, such as the compile cache of the hosts
	objects dynamic.Interface
	clients *kubernetes.Clientset
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		return // all of them need a control plane
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if scratch, err = os.MkdirTemp("", "thole-e2e-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(scratch)
	if program, err = tholetest.Program("cmd/thole"); err != nil {
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
