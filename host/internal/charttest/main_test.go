package charttest

import (
	"errors"
	"fmt"
	"io"
	"log/slog" //nolint:depguard // Helm logs by it: it is silenced
	"os"
	"testing"

	"github.com/thole-dev/thole/host/internal/devcluster"
)

// cluster is the control plane that the tests share.
var cluster *devcluster.Cluster

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // Helm's log
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if cluster, err = devcluster.StartMain(); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	return m.Run(), nil
}
