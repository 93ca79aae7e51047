package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/thole-dev/thole/host/internal/faultproxy/internal/control"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/proxy"
	"github.com/thole-dev/thole/host/internal/faultproxy/internal/rule"
	"github.com/thole-dev/thole/internal/kubeconfig"
)

// run serves until ctx is done.
func run(ctx context.Context, o options, out io.Writer) error {
	server, err := kubeconfig.Load(o.kubeconfig)
	if err != nil {
		return err
	}
	p, err := proxy.New(server)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := readRules(ctx, p, o.rules); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen for clients: %w", err)
	}
	defer listener.Close()
	controls, err := net.Listen("tcp", o.control)
	if err != nil {
		return fmt.Errorf("listen for the control interface: %w", err)
	}
	defer controls.Close()
	certificate, err := writeKubeconfig(o.kubeconfigOut, listener.Addr().(*net.TCPAddr))
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "ready http://%s\n", controls.Addr()); err != nil {
		return err
	}
	return serve(ctx, p, tls.NewListener(listener, tlsConfig(certificate)), controls)
}

// readRules sets the rules of a file; "" is none.
func readRules(ctx context.Context, p *proxy.Proxy, path string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	rules, err := rule.ParseAll(string(text))
	if err == nil {
		err = p.Replace(ctx, rules)
	}
	if err != nil {
		return fmt.Errorf("rules %s: %w", path, err)
	}
	return nil
}

func tlsConfig(certificate tls.Certificate) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{certificate},
		NextProtos:   []string{"h2", "http/1.1"},
		MinVersion:   tls.VersionTLS12,
	}
}

// serve serves clients and the control interface until ctx is done or one fails.
func serve(ctx context.Context, p *proxy.Proxy, clients, controls net.Listener) error {
	servers := map[net.Listener]*http.Server{
		clients:  {Handler: p, ConnContext: proxy.SaveConnection},
		controls: {Handler: control.New(p)},
	}
	group, ctx := errgroup.WithContext(ctx)
	for listener, server := range servers {
		server.ReadHeaderTimeout = time.Minute
		server.ErrorLog = hclog.NewNullLogger().StandardLogger(nil) // of connections that are cut
		group.Go(func() error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve: %w", err)
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			return server.Close()
		})
	}
	return group.Wait()
}

// writeKubeconfig writes a kubeconfig for clients of the proxy at an address, and
// returns the certificate of that proxy.
func writeKubeconfig(path string, address *net.TCPAddr) (tls.Certificate, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey(address.IP.String(), nil, nil)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	const name = "faultproxy"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + address.String(), CertificateAuthorityData: certificate}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	text, err := clientcmd.Write(*config)
	if err == nil {
		err = writeFile(path, text)
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return tls.X509KeyPair(certificate, key)
}

// writeFile replaces a file in one step.
func writeFile(path string, text []byte) error {
	partial := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".partial")
	if err := os.WriteFile(partial, text, 0o600); err != nil {
		return err
	}
	return os.Rename(partial, path)
}
