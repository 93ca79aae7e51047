package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// dialTimeout bounds the time until a connection can be used, without and with TLS.
const dialTimeout = 10 * time.Second

var errHandshake = errors.New("TLS handshake")

// dialer makes the connections of one entry.
type dialer struct {
	net.Dialer
	client *Client
	rule   *rule
	tls    *tls.Config
	proxy  target // zero: none
}

// connect connects to an address, or to one of those of a name. Each is checked in the moment in
// which it is dialled: what the name has resolved to before, or will later, does not matter.
func (d *dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := untilCallEnds(ctx)
	defer cancel()
	var refused atomic.Pointer[error] // addresses are dialled concurrently
	dialer := d.Dialer
	dialer.ControlContext = func(_ context.Context, network, address string, _ syscall.RawConn) error {
		err := d.check(network, address)
		if err != nil {
			refused.Store(&err)
		}
		return err
	}
	conn, err := dialer.DialContext(ctx, network, address)
	if of := refused.Load(); err != nil && of != nil {
		return nil, *of // whichever of several addresses has failed first
	}
	return conn, err
}

// check returns an error unless the address that is about to be dialled is allowed.
func (d *dialer) check(network, address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return denied("%s is not an address of TCP", address)
	}
	if d.proxy == (target{}) { // that of a proxy was chosen by who has written the policy
		if err := d.client.checkAddress(d.rule, d.rule.Host, to.Addr()); err != nil {
			return err
		}
	}
	if d.client.dialling != nil {
		return d.client.dialling(to)
	}
	return nil
}

// checkAddress returns an error unless a rule allows an address. host is whose it is. The address is
// in the log alone: a plugin must not learn what a name resolves to inside of the network.
func (c *Client) checkAddress(r *rule, host string, addr netip.Addr) error {
	class, ok := r.allowed.allow(addr)
	if ok {
		return nil
	}
	c.config.Logger.Warn("a request of the plugin was not sent: the policy does not allow the address of its host",
		"host", host, "entry", r.Host, "address", addr, "class", string(class), "allow", "addresses: ["+single(addr.Unmap()).String()+"]")
	return denied("the address of %s is not public, or not one that the policy's entry for %s allows; the host's log has the field addresses that would allow it", host, r.Host)
}

// connectTLS connects to a host by TLS.
func (d *dialer) connectTLS(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conn, err := d.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return d.secure(ctx, conn, host)
}

// secure makes the handshake of TLS.
func (d *dialer) secure(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	ctx, cancel := untilCallEnds(ctx)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, dialTimeout)
	defer stop()
	config := d.tls.Clone()
	config.ServerName = host
	asked := false
	if len(config.Certificates) == 0 {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			asked = true
			return &tls.Certificate{}, nil
		}
	}
	secured := tls.Client(conn, config)
	err := secured.HandshakeContext(ctx)
	switch {
	case err == nil && asked:
		return &withoutCertificate{secured}, nil
	case err == nil:
		return secured, nil
	}
	conn.Close()
	if _, ok := errors.AsType[net.Error](err); !ok && !isConnectionError(err) && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errHandshake, err)
	}
	return nil, err
}

// withoutCertificate is a connection to a server that has asked for a client's certificate and got
// none. If it insists on one, with TLS 1.3 it says so only after the handshake, and what it says may be
// lost, because it closes the connection while the request arrives.
type withoutCertificate struct{ *tls.Conn }

// endKey is the key of the context value that is a function as context.AfterFunc, of the call.
type endKey struct{}

// untilCallEnds returns a context that ends with the call: the transport's does not, since
// another request could use the connection.
func untilCallEnds(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if after, ok := ctx.Value(endKey{}).(func(func()) func() bool); ok {
		stop := after(cancel)
		return ctx, func() { stop(); cancel() }
	}
	return ctx, cancel
}

// withCallEnd returns a context for [untilCallEnds].
func withCallEnd(ctx context.Context) context.Context {
	return context.WithValue(ctx, endKey{}, func(do func()) func() bool { return context.AfterFunc(ctx, do) })
}
