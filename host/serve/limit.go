package serve

import (
	"net"
	"net/netip"
	"sync"
)

// addressShare is which part of all connections one address may have.
const addressShare = 4

// limitAddresses returns a listener on which each address has a number of connections at most. It closes
// others at once: if they waited until one has ended, so would the probes behind them.
func limitAddresses(l net.Listener, each int) net.Listener {
	return &addressLimit{Listener: l, each: each, open: map[netip.Addr]int{}}
}

type addressLimit struct {
	net.Listener
	each int // connections of one address

	mu   sync.Mutex
	open map[netip.Addr]int // none has 0
}

// Accept implements [net.Listener].
func (l *addressLimit) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := addressOf(c)
		if l.enter(from) {
			return &limitedConn{Conn: c, leave: sync.OnceFunc(func() { l.leave(from) })}, nil
		}
		c.Close()
	}
}

func addressOf(c net.Conn) netip.Addr {
	at, _ := netip.ParseAddrPort(c.RemoteAddr().String()) // the zero Addr counts as one
	return at.Addr().Unmap()
}

func (l *addressLimit) enter(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from] >= l.each {
		return false
	}
	l.open[from]++
	return true
}

func (l *addressLimit) leave(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from]--; l.open[from] == 0 {
		delete(l.open, from)
	}
}

type limitedConn struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (c *limitedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
