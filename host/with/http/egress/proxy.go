package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// errProxy is a proxy that makes no tunnel.
var errProxy = errors.New("the proxy makes no tunnel")

// connectProxy connects to the proxy, to which the transport then speaks as to one without
// TLS. It gets no certificate of the client.
func (d *dialer) connectProxy(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.connect(ctx, network, address)
	if err != nil || d.proxy.scheme != https {
		return conn, err
	}
	toProxy := *d
	toProxy.tls = d.tls.Clone()
	toProxy.tls.Certificates = nil
	return toProxy.secure(ctx, conn, d.proxy.host())
}

// connectThrough connects to a host by TLS through a tunnel of the proxy. The transport could do that, but
// there the tunnel is not ended with the call.
func (d *dialer) connectThrough(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conn, err := d.connectProxy(ctx, network, d.proxy.address())
	if err != nil {
		return nil, err
	}
	if err := d.tunnel(ctx, conn, address); err != nil {
		conn.Close()
		return nil, err
	}
	return d.secure(ctx, conn, host)
}

// tunnel asks the proxy for a tunnel (RFC 9110, "CONNECT"). The connection is closed if the call ends
// meanwhile.
func (d *dialer) tunnel(ctx context.Context, conn net.Conn, address string) error {
	ctx, cancel := untilCallEnds(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if err := request.Write(conn); err != nil {
		return err
	}
	reader := bufio.NewReader(io.LimitReader(conn, maxHeaderBytes))
	response, err := http.ReadResponse(reader, request) //nolint:bodyclose // what follows is the tunnel, of which Close could read
	if err != nil {
		return err
	}
	// Nothing can follow: in TLS the client speaks first.
	if response.StatusCode != http.StatusOK || reader.Buffered() > 0 {
		return errProxy
	}
	return conn.SetDeadline(time.Time{})
}

// address returns host and port, as a dialer takes them.
func (t target) address() string { return net.JoinHostPort(t.host(), strconv.Itoa(int(t.port))) }
