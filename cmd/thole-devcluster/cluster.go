package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/datadir"
	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/pki"
	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/supervise"
)

// How long a role may take to end before it is killed, when asked by the user
// and when another role has failed, which the API server without etcd does not
// get over. What is killed loses nothing: the data is etcd's, and etcd's data
// is in the page cache.
const (
	stopGrace   = 10 * time.Second
	failedGrace = time.Second
)

type options struct {
	dir           string
	port          int
	kubeconfigOut string
	stopWithStdin bool
}

func (o options) validate() error {
	if o.dir == "" {
		return errors.New("--dir is required")
	}
	if o.port < 0 || o.port > 65535 {
		return fmt.Errorf("--port %d: want 0 to 65535", o.port)
	}
	return nil
}

// run brings a cluster up, says so on out, and keeps it until ctx ends, which
// is no failure, or a role does, which is one.
func run(ctx context.Context, o options, out io.Writer) error {
	dir, err := datadir.Open(o.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	listener, err := listen(o.port)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // once more is no harm

	c := &cluster{dir: dir}
	err = c.start(ctx, listener, o.kubeconfigOut)
	if err == nil {
		_, err = fmt.Fprintln(out, "ready")
	}
	if err == nil {
		err = c.wait(ctx)
	}
	if ctx.Err() != nil {
		c.stop(stopGrace)
		return nil // asked to stop
	}
	c.stop(failedGrace)
	return err
}

// listen takes the API server's port before anything is started.
func listen(port int) (*net.TCPListener, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d of 127.0.0.1 is in use: name another --port, or 0 for a free one", port)
	}
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// cluster is what has been started, in that order.
type cluster struct {
	dir   *datadir.Dir
	roles []*supervise.Process
}

func (c *cluster) start(ctx context.Context, listener *net.TCPListener, kubeconfigOut string) error {
	admin, err := c.prepare("https://"+listener.Addr().String(), kubeconfigOut)
	if err != nil {
		return err
	}
	etcd, err := c.startRole(roleEtcd)
	if err != nil {
		return err
	}
	if err := c.await(ctx, etcd, "etcd to serve", reported(etcd)); err != nil {
		return err
	}
	apiServer, err := c.startAPIServer(listener)
	if err != nil {
		return err
	}
	client, err := newClient(admin)
	if err != nil {
		return err
	}
	if err := c.await(ctx, apiServer, "the API server to answer", answering(client, "/livez/ping")); err != nil {
		return err
	}
	controllers, err := c.startRole(roleControllerManager)
	if err != nil {
		return err
	}
	if err := c.await(ctx, apiServer, "the API server to be ready", answering(client, "/readyz")); err != nil {
		return err
	}
	if err := c.await(ctx, controllers, "the default namespace to be filled", settled(client)); err != nil {
		return err
	}
	return c.await(ctx, controllers, "the garbage collector to watch every kind", reported(controllers))
}

// prepare writes everything that the roles read, and returns the path of the
// administrator's kubeconfig.
func (c *cluster) prepare(server, kubeconfigOut string) (string, error) {
	keys := c.dir.Path(datadir.PKI)
	if err := pki.Ensure(keys); err != nil {
		return "", err
	}
	if err := writeKubeconfig(c.dir.Path(controllerManagerKubeconfig), server, keys, pki.ControllerManager); err != nil {
		return "", err
	}
	admin := kubeconfigOut
	if admin == "" {
		admin = c.dir.Path(datadir.Kubeconfig)
	}
	return admin, writeKubeconfig(admin, server, keys, pki.Admin)
}

func (c *cluster) startAPIServer(listener *net.TCPListener) (*supervise.Process, error) {
	file, err := listener.File()
	if err != nil {
		return nil, fmt.Errorf("hand over listener: %w", err)
	}
	defer file.Close()
	p, err := c.startRole(roleAPIServer, file)
	if err == nil {
		// From here on the port is the API server's alone: when it is gone,
		// connections are refused instead of waiting.
		err = listener.Close()
	}
	return p, err
}

func (c *cluster) startRole(name string, files ...*os.File) (*supervise.Process, error) {
	p, err := supervise.Start(supervise.Spec{
		Name:  name,
		Args:  []string{"role", name},
		Dir:   c.dir.Path(),
		Log:   c.dir.Path(datadir.Logs, name+".log"),
		Files: append([]*os.File{c.dir.Lock()}, files...),
	})
	if err == nil {
		c.roles = append(c.roles, p)
	}
	return p, err
}

// wait returns nil when ctx ends, else why the first role did.
func (c *cluster) wait(ctx context.Context) error {
	ctx, cancel := c.whileAlive(ctx)
	defer cancel()
	<-ctx.Done()
	return context.Cause(ctx)
}

// whileAlive returns a context that ends, with the reason, as soon as one of
// the roles does.
func (c *cluster) whileAlive(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, p := range c.roles {
		go func() {
			select {
			case <-p.Done():
				cancel(p.Err())
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// stop ends the roles, each before the one that it needs.
func (c *cluster) stop(grace time.Duration) {
	for _, p := range slices.Backward(c.roles) {
		p.Stop(grace)
	}
}
