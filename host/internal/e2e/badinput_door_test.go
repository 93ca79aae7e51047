package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/thole-dev/thole/host/internal/tholetest"
)

// door is an address through which a host reaches the API server, or not.
type door struct {
	t       *testing.T
	address string // of the door
	server  string // of the API server

	mu       sync.Mutex
	listener net.Listener
	isOpen   bool
	conns    map[net.Conn]bool
	thawed   chan struct{} // closed unless frozen
}

// newDoor returns a closed one.
func newDoor(t *testing.T) *door {
	t.Helper()
	server, err := url.Parse(cluster.Config.Host)
	done(t, err)
	d := &door{t: t, address: ownAddress(), server: server.Host, conns: map[net.Conn]bool{}, thawed: make(chan struct{})}
	close(d.thawed)
	d.open() // to get an address
	d.close()
	t.Cleanup(d.close)
	return d
}

// ownAddress is one of loopback that other programs hardly use: while the door
// is closed its port is free, and every listener and every connection of this
// machine could get it on 127.0.0.1.
func ownAddress() string {
	return fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}

// kubeconfig returns the path of the administrator's, through the door.
func (d *door) kubeconfig() string {
	return tholetest.Kubeconfig(d.t, tholetest.Server(cluster.Config, d.address), tholetest.User(cluster.Config))
}

// open lets connections through.
func (d *door) open() {
	d.t.Helper()
	listener, err := net.Listen("tcp", d.address)
	done(d.t, err)
	d.mu.Lock()
	d.listener, d.address, d.isOpen = listener, listener.Addr().String(), true
	d.mu.Unlock()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go d.pass(conn)
		}
	}()
}

// close ends what goes through and lets nothing in.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isOpen = false
	d.listener.Close()
	for conn := range d.conns {
		conn.Close()
	}
	clear(d.conns)
}

// freeze takes what comes and passes nothing on until thaw, as an API server
// does that was stopped by SIGSTOP.
func (d *door) freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.thawed = make(chan struct{})
}

func (d *door) thaw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.thawed)
}

func (d *door) pass(inside net.Conn) {
	defer inside.Close()
	outside, err := net.Dial("tcp", d.server)
	if err != nil {
		return
	}
	defer outside.Close()
	if !d.add(inside, outside) {
		return
	}
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{inside, outside}, {outside, inside}} {
		go func() {
			_, _ = io.Copy(way[0], slow{way[1], d})
			ended <- struct{}{}
		}()
	}
	<-ended
}

// add notes connections to close with the door, and says whether it is open.
func (d *door) add(conns ...net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range conns {
		d.conns[conn] = true
	}
	return d.isOpen
}

// slow reads what has come once the door is not frozen.
type slow struct {
	net.Conn
	door *door
}

func (s slow) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.door.mu.Lock()
	thawed := s.door.thawed
	s.door.mu.Unlock()
	<-thawed
	return n, err
}
