package proxy

import (
	"context"
	"crypto/tls"
	"net"
)

type connectionKey struct{}

// SaveConnection is the ConnContext of a server whose handler is a [Proxy].
func SaveConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// cutConnection closes the client's TCP connection, with all requests of it.
func cutConnection(ctx context.Context) {
	c, _ := ctx.Value(connectionKey{}).(net.Conn)
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn() // without an end of TLS
	}
	if c != nil {
		_ = c.Close()
	}
}
