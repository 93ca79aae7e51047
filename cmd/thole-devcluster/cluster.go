package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/atomicfile"
	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/datadir"
	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/pki"
	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/supervise"
)

// How long a component may take to end before it is killed: when the user asked
// for it, and when another component has failed, which the API server does not
// survive if it was etcd. Killing loses nothing: the data is etcd's, and what
// etcd has written is in the page cache.
const (
	stopGrace   = 10 * time.Second
	failedGrace = time.Second
)

// options are the flags of the command.
type options struct {
	dir           string
	port          uint16
	kubeconfigOut string
	auditLog      string // "": none
	stopWithStdin bool

	withoutControllers []string // names of those of Kubernetes that do not run
}

// run starts a cluster, writes "ready" to out, and keeps the cluster until ctx
// is done, which is no failure, or a component ends, which is one.
func run(ctx context.Context, o options, out io.Writer) error {
	running, err := runningControllers(o.withoutControllers)
	if err != nil {
		return err
	}
	dir, err := datadir.Open(o.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	listener, err := listen(o.port)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // it may be closed already

	c := &cluster{dir: dir, controllers: running}
	err = c.start(ctx, listener, o)
	if err == nil {
		_, err = fmt.Fprintln(out, "ready")
	}
	if err == nil {
		err = c.wait(ctx)
	}
	if ctx.Err() != nil {
		c.stop(stopGrace)
		return nil // it was asked to stop
	}
	c.stop(failedGrace)
	return err
}

// listen reserves the API server's port before anything is started.
func listen(port uint16) (*net.TCPListener, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)})
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d of 127.0.0.1 is in use: name another --port, or 0 for a free one", port)
	}
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// cluster is a control plane.
type cluster struct {
	dir       *datadir.Dir
	processes []*supervise.Process // in the order in which they were started

	controllers []string // names of those that run
}

func (c *cluster) start(ctx context.Context, listener *net.TCPListener, o options) error {
	admin, err := c.prepare("https://"+listener.Addr().String(), o.kubeconfigOut)
	if err != nil {
		return err
	}
	audit, err := c.auditFlags(o.auditLog)
	if err != nil {
		return err
	}
	etcd, err := c.startComponent(componentEtcd, nil)
	if err != nil {
		return err
	}
	if err := c.await(ctx, etcd, "etcd to serve", reportedReady(etcd)); err != nil {
		return err
	}
	apiServer, err := c.startAPIServer(listener, audit)
	if err != nil {
		return err
	}
	client, err := newClient(admin)
	if err != nil {
		return err
	}
	if err := c.await(ctx, apiServer, "the API server to answer", servesOK(client, "/livez/ping")); err != nil {
		return err
	}
	controllers, err := c.startComponent(componentControllerManager, c.controllers)
	if err != nil {
		return err
	}
	if err := c.await(ctx, apiServer, "the API server to be ready", servesOK(client, "/readyz")); err != nil {
		return err
	}
	if err := c.await(ctx, controllers, "the default namespace to be filled", defaultNamespaceFilled(client)); err != nil {
		return err
	}
	return c.await(ctx, controllers, "the garbage collector to watch every kind", reportedReady(controllers))
}

// prepare writes every file that the components read, and returns the path of
// the administrator's kubeconfig.
func (c *cluster) prepare(server, kubeconfigOut string) (string, error) {
	keys := c.dir.Path(datadir.PKI)
	if err := pki.Ensure(keys); err != nil {
		return "", err
	}
	if err := writeKubeconfig(c.dir.Path(controllerManagerKubeconfig), server, keys, pki.ControllerManager); err != nil {
		return "", err
	}
	admin := cmp.Or(kubeconfigOut, c.dir.Path(datadir.Kubeconfig))
	return admin, writeKubeconfig(admin, server, keys, pki.Admin)
}

// writeKubeconfig writes a kubeconfig for a user that has a certificate in
// pkiDir. It contains the keys instead of their paths, so that it can be moved.
func writeKubeconfig(path, server, pkiDir, user string) error {
	const name = "thole-devcluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server:               server,
		CertificateAuthority: filepath.Join(pkiDir, pki.CertFile(pki.Authority)),
	}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificate: filepath.Join(pkiDir, pki.CertFile(user)),
		ClientKey:         filepath.Join(pkiDir, pki.KeyFile(user)),
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	if err := clientcmdapi.FlattenConfig(config); err != nil { // reads the three files
		return fmt.Errorf("make kubeconfig: %w", err)
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("make kubeconfig: %w", err)
	}
	return atomicfile.Write(path, data, 0o600)
}

func (c *cluster) startAPIServer(listener *net.TCPListener, flags []string) (*supervise.Process, error) {
	file, err := listener.File()
	if err != nil {
		return nil, fmt.Errorf("pass the listener on: %w", err)
	}
	defer file.Close()
	p, err := c.startComponent(componentAPIServer, flags, file)
	if err == nil {
		// From here on only the API server has the port. When it has ended,
		// connections are refused instead of waiting to be accepted.
		err = listener.Close()
	}
	return p, err
}

func (c *cluster) startComponent(name string, flags []string, files ...*os.File) (*supervise.Process, error) {
	p, err := supervise.Start(supervise.Spec{
		Name:  name,
		Args:  append([]string{"component", name, "--"}, flags...),
		Dir:   c.dir.Path(),
		Log:   c.dir.Path(datadir.Logs, name+".log"),
		Files: append([]*os.File{c.dir.Lock()}, files...),
	})
	if err == nil {
		c.processes = append(c.processes, p)
	}
	return p, err
}

// wait blocks until ctx is done, and returns nil, or until a component ends, and
// returns why.
func (c *cluster) wait(ctx context.Context) error {
	ctx, cancel := c.whileAlive(ctx)
	defer cancel()
	<-ctx.Done()
	return context.Cause(ctx)
}

// whileAlive returns a context that is cancelled, with the reason as its cause,
// when one of the components ends.
func (c *cluster) whileAlive(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, p := range c.processes {
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

// stop ends the components, each before the one that it depends on.
func (c *cluster) stop(grace time.Duration) {
	for _, p := range slices.Backward(c.processes) {
		p.Stop(grace)
	}
}

const (
	// startLimit bounds each step of a start. On an idle machine each takes
	// less than a second.
	startLimit = 2 * time.Minute

	pollPeriod = 25 * time.Millisecond
)

// condition returns nil once a step of the start is complete, else why it is
// not.
type condition func(context.Context) error

// await waits for a condition that p brings about, as long as every component
// lives.
func (c *cluster) await(ctx context.Context, p *supervise.Process, what string, reached condition) error {
	ctx, cancel := c.whileAlive(ctx)
	defer cancel()
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollPeriod, startLimit, true, func(context.Context) (bool, error) {
		last = reached(ctx)
		return last == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("waited %s for %s: %w; %s", startLimit, what, last, p.LogTail())
}

// reportedReady is reached when the component has reported to be ready.
func reportedReady(p *supervise.Process) condition {
	return func(context.Context) error {
		select {
		case <-p.Ready():
			return nil
		default:
			return errors.New("it has not reported to be ready")
		}
	}
}

// servesOK is reached when the API server responds to a path with OK.
func servesOK(client *kubernetes.Clientset, path string) condition {
	return func(ctx context.Context) error {
		return client.RESTClient().Get().AbsPath(path).Do(ctx).Error()
	}
}

// defaultNamespaceFilled is reached when the default namespace holds what the
// controllers create in every namespace, without which pods are not admitted.
func defaultNamespaceFilled(client *kubernetes.Clientset) condition {
	core := client.CoreV1()
	return func(ctx context.Context) error {
		_, err := core.ServiceAccounts(corev1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = core.ConfigMaps(corev1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	}
}

func newClient(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := unlimitedConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = 10 * time.Second
	return kubernetes.NewForConfig(config)
}

// unlimitedConfig reads a kubeconfig, without client-go's default limit of 5
// requests per second.
func unlimitedConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}
