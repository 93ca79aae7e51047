package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	_ "github.com/thole-dev/thole/host" // the tests run it as a process: their cached results must depend on it
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// root is the path of the repository.
var root = filepath.Join("..", "..", "..")

// What every test shares: one control plane, one build of the program, one browser.
var (
	chromium string // its path; "": there is none, and tests are skipped
	cluster  *devcluster.Cluster
	objects  dynamic.Interface
	program  string          // the path of thole
	shared   string          // directory of the compile cache of the hosts
	browser  context.Context // of chromedp
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
	if chromium, err = exec.LookPath("chromium"); err != nil {
		return m.Run(), nil
	}
	if shared, err = os.MkdirTemp("", "thole-browser-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(shared)) }()
	if program, err = tholetest.Program("cmd/thole"); err != nil {
		return 1, err
	}
	if cluster, err = devcluster.StartMain(); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	config := rest.CopyConfig(cluster.Config)
	config.QPS = -1
	if objects, err = dynamic.NewForConfig(config); err != nil {
		return 1, err
	}
	stop, err := startBrowser()
	if err != nil {
		return 1, err
	}
	defer stop()
	return m.Run(), nil
}

// startBrowser starts Chromium, for as long as this process runs at most.
func startBrowser() (stop func(), err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to start for root with one
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stopBrowser := chromedp.NewContext(allocator)
	browser = ctx
	if err := chromedp.Do(browser); err != nil {
		stopAllocator()
		return nil, fmt.Errorf("start %s: %w", chromium, err)
	}
	return func() {
		stopBrowser()
		stopAllocator()
	}, nil
}
