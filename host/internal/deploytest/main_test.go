package deploytest

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
)

// root is the path of the repository.
const root = "../../.."

// What every test shares: one control plane, one build of the program.
var (
	cluster *devcluster.Cluster
	admin   *administrator
	scratch string // directory for what tests share: the program, compiled plugins
)

// administrator has clients with every right.
type administrator struct {
	*kubernetes.Clientset
	objects dynamic.Interface
	http    *http.Client
	config  *rest.Config
}

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(kubectl(os.Args[1:]))
	}
	flag.Parse()
	if testing.Short() {
		return // all of them need a control plane
	}
	code, err := run(m)
	if err == nil && code == 0 {
		err = await.Success(func() error { return goleak.Find() })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if scratch, err = os.MkdirTemp("", "thole-deploy-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(scratch)
	defer func() { err = errors.Join(err, removeStorage()) }()
	if cluster, err = devcluster.StartMain(); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if admin, err = newAdministrator(cluster.Config); err != nil {
		return 1, err
	}
	defer utilnet.CloseIdleConnectionsFor(admin.http.Transport)
	return m.Run(), nil
}

func newAdministrator(config *rest.Config) (*administrator, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 1000, 2000
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfigAndClient(config, client)
	return &administrator{clients, objects, client, config}, err
}
