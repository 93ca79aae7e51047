package e2e

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/thole-dev/thole/host/internal/tholetest"
)

// gate is a TCP proxy of the API server that can be closed and frozen.
type gate struct {
	t       *testing.T
	address string // of the gate
	server  string // address of the API server

	mu       sync.Mutex
	listener net.Listener
	isOpen   bool
	conns    map[net.Conn]bool
	thawed   chan struct{} // closed unless the gate is frozen
}

// newGate returns a closed gate.
func newGate(t *testing.T) *gate {
	t.Helper()
	server, err := url.Parse(cluster.Config.Host)
	must(t, err)
	g := &gate{t: t, address: tholetest.RandomLoopback(), server: server.Host, conns: map[net.Conn]bool{}, thawed: make(chan struct{})}
	close(g.thawed)
	g.open() // to reserve a port
	g.close()
	t.Cleanup(g.close)
	return g
}

// kubeconfig returns the path of a kubeconfig of the administrator through the gate.
func (g *gate) kubeconfig() string {
	return tholetest.Kubeconfig(g.t, tholetest.Server(cluster.Config, g.address), tholetest.User(cluster.Config))
}

// open accepts connections.
func (g *gate) open() {
	g.t.Helper()
	listener, err := net.Listen("tcp", g.address)
	must(g.t, err)
	g.mu.Lock()
	g.listener, g.address, g.isOpen = listener, listener.Addr().String(), true
	g.mu.Unlock()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go g.serve(conn)
		}
	}()
}

// close ends all connections and refuses new ones.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isOpen = false
	g.listener.Close()
	for conn := range g.conns {
		conn.Close()
	}
	clear(g.conns)
}

// freeze accepts connections and data but transfers nothing until thaw, like an API
// server that was stopped by SIGSTOP.
func (g *gate) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.thawed = make(chan struct{})
}

func (g *gate) thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.thawed)
}

func (g *gate) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", g.server)
	if err != nil {
		return
	}
	defer server.Close()
	if !g.add(client, server) {
		return
	}
	ended := make(chan struct{}, 2)
	for _, direction := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(direction[0], freezable{direction[1], g})
			ended <- struct{}{}
		}()
	}
	<-ended
}

// add registers connections that close must close. It returns false if the gate
// has been closed meanwhile.
func (g *gate) add(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, conn := range conns {
		g.conns[conn] = true
	}
	return g.isOpen
}

// freezable is a connection whose data is delivered while the gate is not frozen.
type freezable struct {
	net.Conn
	gate *gate
}

func (f freezable) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	f.gate.mu.Lock()
	thawed := f.gate.thawed
	f.gate.mu.Unlock()
	<-thawed
	return n, err
}
